package torture

import "fmt"

// Demands are what a whole run must have shown, by the name of the count.
func demands(short bool) map[string]int64 {
	if short {
		return map[string]int64{kills: 50, killsAgain: 10, abortedOnes: 10, alignments: 5, recommitted: 10, brokerKills: 1, segments: 1, restored: 3}
	}
	return map[string]int64{kills: 600, fakeKills: 500, realKills: 100, brokerKills: 10, brokerAimed: 5, abortedOnes: 100, alignments: 100,
		recommitted: 100, byMarker: 1, healedOnes: 1, materialized: 1, segments: 1, basesReused: 1, basesDropped: 1, spilled: 1, restored: 20}
}

const segments = replayed

// Judge compares the counts of a complete run with what they must be, and looks for
// points that nobody passed, or nobody died at.
func (s *Suite) Judge(short bool) (wrong []string) {
	t := s.total
	for name, n := range demands(short) {
		if t.Counts[name] < n {
			wrong = append(wrong, fmt.Sprintf("%s: %d, at least %d are asked for", name, t.Counts[name], n))
		}
	}
	if 5*t.Counts[killsAgain] < t.Counts[kills] {
		wrong = append(wrong, fmt.Sprintf("only %d of %d kills came before the job ran again", t.Counts[killsAgain], t.Counts[kills]))
	}
	if tried := t.Counts[abortedOnes] + t.Counts[published]; 4*t.Counts[abortedOnes] < tried {
		wrong = append(wrong, fmt.Sprintf("only %d of %d checkpoints were aborted", t.Counts[abortedOnes], tried))
	}
	for _, p := range Points {
		everyday := p.Road == Steady || p.Road == Aborting || p.Road == Restart || p.Road == Fresh || p.Road == Keyed || p.Road == KeyedUp
		if !t.Passed[p.Name] && (everyday || !short) {
			wrong = append(wrong, fmt.Sprintf("%s (%s) was never passed", p.Name, p.K))
		}
		if !short && p.Road != Heal && t.Counts[killAt+p.Name] == 0 {
			wrong = append(wrong, fmt.Sprintf("nobody died at %s (%s)", p.Name, p.K))
		}
	}
	return wrong
}
