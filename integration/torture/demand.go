package torture

import (
	"fmt"
	"io"
)

// demand is what a whole run must have shown: a count, and the least it must be.
type demand struct {
	count string
	least int64
	// patient says that the count hangs on where a broker is at its death: a run with a
	// budget of time may end before it.
	patient bool
}

// demands of a short run are those that its few kills give.
func demands(short, long bool) []demand {
	if short {
		return []demand{{count: kills, least: 50}, {count: killsAgain, least: 10}, {count: abortedOnes, least: 10}, {count: alignments, least: 5},
			{count: recommitted, least: 10}, {count: brokerKills, least: 1}, {count: replayed, least: 1}, {count: restored, least: 3},
			{count: twoOwners, least: 2}, {count: refusals, least: 2}, {count: controlsSeen, least: int64(len(everyday))},
			{count: tableKills + string(Prepared), least: 5}, {count: tableKills + string(Staged), least: 5}}
	}
	n := int64(1)
	if long {
		n = longer
	}
	frozen := int64(0)
	for _, p := range Points {
		if p.Frozen {
			frozen++
		}
	}
	return append(tableDemands(n), []demand{
		{count: fakeKills, least: 500 * n}, {count: realKills, least: 100 * n}, {count: brokerKills, least: 10}, {count: brokerAimed, least: 5},
		{count: oldVersion, least: 1}, {count: twoSlots, least: 1}, {count: byMarker, least: 1}, {count: bigStates, least: 1}, {count: spilled, least: 1},
		{count: twoOwners, least: frozen}, {count: refusals, least: int64(len(Refusals))},
		{count: controlsSeen, least: int64(len(Controls) + len(TableControls))}, {count: controlsHung, least: 2, patient: true}, {count: healedOnes, least: 1, patient: true},
		{count: abortedOnes, least: 100}, {count: alignments, least: 100}, {count: recommitted, least: 100}, {count: materialized, least: 1},
		{count: replayed, least: 1}, {count: basesReused, least: 1}, {count: basesDropped, least: 1}, {count: restored, least: 20},
	}...)
}

// tableDemands are those of jobs that write tables, for every strategy.
func tableDemands(n int64) (out []demand) {
	for _, s := range Strategies {
		out = append(out, demand{count: tableKills + string(s), least: 100 * n}, demand{count: tableKillsAgain + string(s), least: 20 * n},
			demand{count: tableServerKills + string(s), least: 5},
			demand{count: answersLost + string(s), least: 4}, demand{count: requestsLost + string(s), least: 4})
	}
	return append(out, demand{count: tableServerAimed, least: 10}, demand{count: recommitted + intoTables, least: 50}, demand{count: byMarker + intoTables, least: 50})
}

// Judge prints the table of counts and demands, and reports whether all are met. A
// demand that is missed because a part was left out for want of time fails the run
// like any other, but for the patient ones.
func (s *Suite) Judge(w io.Writer, short, long bool) (ok bool) {
	t := s.total
	ok = true
	row := func(met, excused bool, what string, have, least int64) {
		word := "ok"
		switch {
		case !met && excused:
			word = "SHORT"
		case !met:
			word, ok = "FAIL", false
		}
		fmt.Fprintf(w, "  %-5s %-52s %6d of %d\n", word, what, have, least)
	}
	fmt.Fprintln(w, "torture: what was asked for")
	for _, d := range demands(short, long) {
		have := t.Counts[d.count]
		row(have >= d.least, d.patient && !s.deadline.IsZero(), d.count, have, d.least)
	}
	again, aborted := (t.Counts[kills]+4)/5, (t.Counts[abortedOnes]+t.Counts[published]+3)/4
	row(t.Counts[killsAgain] >= again, false, "one of 5 kills before the job ran again", t.Counts[killsAgain], again)
	row(t.Counts[abortedOnes] >= aborted, false, "one of 4 checkpoints aborted", t.Counts[abortedOnes], aborted)
	row(2*t.Counts[brokerAimed] >= t.Counts[brokerKills], false, "half of the brokers killed at EndTxn", t.Counts[brokerAimed], (t.Counts[brokerKills]+1)/2)
	s.judgePoints(w, short, row)
	return ok
}

// judgePoints looks for points that nobody passed, or nobody died at.
func (s *Suite) judgePoints(w io.Writer, short bool, row func(met, excused bool, what string, have, least int64)) {
	t := s.total
	passed, died, mustPass, mustDie := int64(0), int64(0), int64(0), int64(0)
	for _, p := range Points {
		everyday := p.Road == Steady || p.Road == Aborting || p.Road == Restart || p.Road == Fresh || p.Road == Keyed || p.Road == KeyedUp
		if p.Road == Heal || short && !everyday {
			continue // where healing begins nobody can aim: it is rare
		}
		mustPass++
		if t.Passed[p.Name] {
			passed++
		} else {
			fmt.Fprintf(w, "        %s (%s) was never passed\n", p.Name, p.K)
		}
		if short {
			continue
		}
		mustDie++
		if t.Counts[killAt+p.Name] > 0 {
			died++
		} else {
			fmt.Fprintf(w, "        nobody died at %s (%s)\n", p.Name, p.K)
		}
	}
	for _, s := range Strategies {
		for _, p := range TablePoints[s] {
			if short {
				continue
			}
			mustDie++
			if t.Counts[killedAt(s, p.Name)] > 0 {
				died++
			} else {
				fmt.Fprintf(w, "        nobody died at %s of a job that writes tables, %s\n", p.Name, s)
			}
		}
	}
	row(passed == mustPass, false, "fault points passed", passed, mustPass)
	row(died == mustDie, false, "fault points at which a worker died", died, mustDie)
}
