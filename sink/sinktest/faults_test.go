package sinktest

import (
	"math/rand/v2"
	"strings"
	"testing"

	"etl/stream"
)

// fault is a rule that a sink in memory breaks.
type flawed string

// The faults, each with the kind of sink that has it and the rule of the suite that
// must notice.
const (
	noFault              flawed = ""
	commitTwice          flawed = "a repeated commit writes the rows again"
	permitNotAsked       flawed = "a commit needs no permit"
	orderNotKept         flawed = "a commit comes after a later one of its lane"
	commitNeedsWriter    flawed = "only the attempt that wrote can commit"
	versionNotChecked    flawed = "a committable of an unknown kind is read"
	oneMarkerForAll      flawed = "all lanes share a marker"
	markerForgotten      flawed = "a retired marker is deleted"
	markerNotRead        flawed = "what the server does not know is called lost"
	goneCalledCommitted  flawed = "what the server does not know is called committed"
	committedCalledOpen  flawed = "a probe calls open what is committed"
	openCalledGone       flawed = "a probe calls gone what is open"
	probeCommits         flawed = "a probe commits"
	probeAborts          flawed = "a probe aborts"
	markerApart          flawed = "the marker is written after the rows"
	inspectMisses        flawed = "inspect leaves out its own attempt"
	inspectEnds          flawed = "inspect ends what it lists"
	otherName            flawed = "a committable is called otherwise than inspect calls it"
	endsNothing          flawed = "who is ended by name lives on"
	endsAll              flawed = "who is ended by name takes others along"
	epochNotSealed       flawed = "rows behind the barrier get into the epoch"
	finishBeforeDurable  flawed = "a committable is handed out before its rows are durable"
	emptyRepeats         flawed = "an epoch without rows lists the last one again"
	abortDropsRows       flawed = "rows of an aborted epoch are dropped"
	abortWritesAgain     flawed = "rows of an aborted epoch are prepared twice"
	replacesNotSaid      flawed = "what was prepared again stays listed"
	orderOfAborts        flawed = "rows of an aborted epoch come after newer ones"
	neverWaked           flawed = "a prepare that waits for a commit does not notice it"
	batchesKept          flawed = "batches are never released"
	batchesRead          flawed = "batches are read after their release"
	batchesReleasedTwice flawed = "batches are released twice"
	closeEnds            flawed = "closing aborts"
	closeCommits         flawed = "closing commits"
	deadlineNotTold      flawed = "a committable has no deadline"
	committableOfNobody  flawed = "a committable does not say whose it is"
	rejectsDropped       flawed = "bad rows are dropped"
	rejectsRepeated      flawed = "rows found bad are rejected with every epoch"
	rejectsForgotten     flawed = "rows found bad are forgotten in a restart"
	moreNotSaid          flawed = "nobody learns that rows are held back"
	fenceForgets         flawed = "a fence leaves everything"
	laneForgotten        flawed = "a fence leaves lanes that are no more"
	keepIgnored          flawed = "a fence ends what it was to keep"
	ownersIgnored        flawed = "a fence ends what other attempts have"
	lineageIgnored       flawed = "a fence ends what other lives have"
	sinkIgnored          flawed = "a fence ends what other sinks have"
	jobIgnored           flawed = "a fence ends what other jobs have"
	lineageNotCompared   flawed = "markers of another life are overlooked"
	namesWithoutAttempt  flawed = "two attempts use the same names"
	orderLost            flawed = "rows of an epoch are shown in another order"
	oldNewsRefused       flawed = "news that are old are taken for a mistake"
	fenceOnce            flawed = "a fence fails where another one was"
	markersHidden        flawed = "markers are not read at a start"
	laneUnknown          flawed = "lanes that are no more are not known"
	keylessWritten       flawed = "a row without a key is written"
	brokenCalledLost     flawed = "a broken connection is called a loss"
	preparedVolatile     flawed = "what is prepared is not durable outside"
	zombieCommits        flawed = "a fenced attempt can commit"
	guardOmitted         flawed = "an older row replaces a newer one"
	notFlushed           flawed = "rows are written behind the checkpoint they belong to"
)

var controls = []struct {
	fault flawed
	kind  kind
	rule  string
}{
	{commitTwice, appending, "a commit can be repeated"},
	{permitNotAsked, appending, "a commit needs its permit"},
	{orderNotKept, appending, "commits of a lane keep their order"},
	{commitNeedsWriter, appending, "any process can commit"},
	{versionNotChecked, appending, "a committable of another kind is refused"},
	{oneMarkerForAll, appending, "each lane has its own marker"},
	{markerForgotten, appending, "a marker answers for what is retired"},
	{markerNotRead, appending, "the publisher finds it committed by another"},
	{markerNotRead, appending, "a reply to a commit is lost"},
	{goneCalledCommitted, appending, "what is lost is said to be lost"},
	{goneCalledCommitted, appending, "what is prepared has its time"},
	{committedCalledOpen, appending, "a probe tells open from committed"},
	{openCalledGone, appending, "a probe tells open from committed"},
	{probeCommits, appending, "a probe changes nothing"},
	{probeAborts, appending, "a probe changes nothing"},
	{markerApart, logging, "a process dies anywhere in: commit a lane"},
	{inspectMisses, appending, "inspect lists what is in doubt, and changes nothing"},
	{inspectEnds, appending, "inspect lists what is in doubt, and changes nothing"},
	{otherName, appending, "what inspect names can be ended by name"},
	{endsNothing, appending, "what inspect names can be ended by name"},
	{endsAll, appending, "what inspect names can be ended by name"},
	{epochNotSealed, appending, "the barrier cuts"},
	{finishBeforeDurable, appending, "what is finished needs no process"},
	{finishBeforeDurable, appending, "a process dies anywhere in: publish"},
	{emptyRepeats, appending, "an epoch without rows leaves nothing"},
	{abortDropsRows, appending, "an abort loses nothing"},
	{abortWritesAgain, appending, "an abort loses nothing"},
	{replacesNotSaid, appending, "an abort loses nothing"},
	{replacesNotSaid, reducing, "an abort loses nothing"},
	{orderOfAborts, reducing, "an abort loses nothing"},
	{neverWaked, reducing, "an epoch waits for the last one"},
	{batchesKept, appending, "batches are released, and read no more"},
	{batchesRead, appending, "batches are released, and read no more"},
	{batchesReleasedTwice, appending, "batches are released, and read no more"},
	{closeEnds, appending, "closing ends nothing"},
	{closeCommits, appending, "closing ends nothing"},
	{deadlineNotTold, appending, "rows are visible with their commit"},
	{committableOfNobody, appending, "rows are visible with their commit"},
	{rejectsDropped, appending, "a row found bad in Write is rejected once"},
	{rejectsRepeated, appending, "a row found bad in Finish comes with the next epoch"},
	{rejectsForgotten, appending, "a row found bad survives a restart"},
	{moreNotSaid, appending, "a row found bad in Finish comes with the next epoch"},
	{fenceForgets, appending, "a fence ends what its owners left"},
	{laneForgotten, appending, "a fence ends what its owners left"},
	{keepIgnored, appending, "a fence keeps what it is told to keep"},
	{keepIgnored, appending, "a cancelled job ends its own"},
	{ownersIgnored, appending, "a fence touches nobody else"},
	{ownersIgnored, appending, "a zombie fences nobody"},
	{lineageIgnored, appending, "a fence touches nobody else"},
	{sinkIgnored, appending, "a fence touches nobody else"},
	{jobIgnored, appending, "a fence touches nobody else"},
	{lineageNotCompared, appending, "a foreign lineage is refused"},
	{namesWithoutAttempt, appending, "a zombie finishes in vain"},
	{zombieCommits, logging, "a zombie commits nothing that was abandoned"},
	{fenceForgets, appending, "a zombie commits nothing that was abandoned"},
	{abortDropsRows, appending, "an abort loses nothing in a crash"},
	{orderLost, appending, "rows of a key keep their order"},
	{oldNewsRefused, appending, "news come at any time"},
	{fenceOnce, appending, "a fence can be repeated"},
	{namesWithoutAttempt, appending, "a zombie writes in vain"},
	{commitTwice, appending, "a zombie commits in vain"},
	{fenceForgets, appending, "one checkpoint is restored again and again"},
	{markersHidden, appending, "an older checkpoint is seen to be behind"},
	{laneUnknown, appending, "committables of another parallelism are committed"},
	{goneCalledCommitted, appending, "the newest checkpoint is lost, an older one fits"},
	{goneCalledCommitted, appending, "half a checkpoint is no checkpoint"},
	{keylessWritten, appending, "a row without its key is rejected"},
	{commitNeedsWriter, appending, "a process dies anywhere in its restart"},
	{brokenCalledLost, appending, "a request of a commit is lost"},
	{preparedVolatile, appending, "the outside dies"},
	{guardOmitted, upserting, "a replay shows nothing older"},
	{notFlushed, upserting, "rows are there when their checkpoint is finished"},
}

// TestControls: the suite catches every broken rule, by the rule that is meant for it.
func TestControls(t *testing.T) {
	for _, c := range controls {
		t.Run(string(c.fault)+"/"+c.rule, func(t *testing.T) {
			s := suiteOf(c.kind, c.fault).withDefaults()
			s.inside(t, func(t testing.TB) {
				skipped, err := s.perform(t, ruleNamed(t, c.rule))
				if err == nil {
					t.Fatalf("not caught (skipped: %q)", skipped)
				}
				why, _, _ := strings.Cut(err.Error(), "\n")
				t.Logf("caught: %s", why)
			})
		})
	}
}

func ruleNamed(t testing.TB, name string) rule {
	t.Helper()
	for _, r := range rules {
		if r.name == name {
			return r
		}
	}
	t.Fatalf("there is no rule %q", name)
	return rule{}
}

// repeat brings back a transaction that was committed: the fault commitTwice.
func (s *server) repeat(n txnName) {
	defer s.lock()()
	if s.markers[n.laneName] >= n.id && s.txns[n] == nil {
		for i := range s.rows {
			s.rows = append(s.rows, s.rows[i])
			return
		}
	}
}

// forgetMarker lets an older transaction be committed after a newer one.
func (s *server) forgetMarker(n txnName) {
	defer s.lock()()
	if s.txns[n] != nil {
		delete(s.markers, n.laneName)
	}
}

// apply is the server's, but for faults of the sink that delivers.
func (m *memory) apply(by stream.Attempt, n txnName, rows []Row) (bool, error) {
	if !m.is(markerApart) {
		return m.srv.apply(by, n, rows)
	}
	if m.srv.marker(n.laneName) >= n.id {
		return false, nil
	}
	m.srv.upsert(rows, true)
	if err := m.p.n.pass(step); err != nil {
		return false, err
	}
	return m.srv.apply(by, n, nil)
}

// TestEveryRuleHasAControl: a rule that no broken sink has ever met proves nothing.
func TestEveryRuleHasAControl(t *testing.T) {
	met := map[string]bool{}
	for _, c := range controls {
		met[c.rule] = true
	}
	for _, r := range rules {
		if strings.HasPrefix(r.name, "a process dies anywhere in: ") {
			continue // one rule at many places: two have controls
		}
		if !met[r.name] {
			t.Errorf("%q has no negative control", r.name)
		}
	}
}

// notInHistories are the faults that only a test of their own can notice: histories have
// one job, ask the ledger for every commit, and end nothing by hand.
var notInHistories = []flawed{permitNotAsked, orderNotKept, versionNotChecked, goneCalledCommitted, neverWaked, keepIgnored, lineageIgnored, sinkIgnored,
	jobIgnored, lineageNotCompared, zombieCommits, oldNewsRefused, keylessWritten, preparedVolatile, otherName, endsNothing, endsAll}

// TestHistoriesCatch: random histories notice broken rules, too, without being told
// where to look.
func TestHistoriesCatch(t *testing.T) {
	seen := map[flawed]bool{}
	for _, f := range notInHistories {
		seen[f] = true
	}
	for _, c := range controls {
		if seen[c.fault] {
			continue
		}
		seen[c.fault] = true
		t.Run(string(c.fault), func(t *testing.T) {
			s := suiteOf(c.kind, c.fault).withDefaults()
			for seed := range uint64(200) {
				if err := s.seeded(t, seed); err != nil {
					why, _, _ := strings.Cut(err.Error(), "\n")
					t.Logf("caught with seed %d: %s", seed, why)
					return
				}
			}
			t.Error("not caught in 200 histories")
		})
	}
}

// seeded plays a history of a seed.
func (s *Suite) seeded(t *testing.T, seed uint64) (err error) {
	r := rand.New(rand.NewPCG(seed, 1))
	choices := make([]uint16, 3*s.Steps)
	for i := range choices {
		choices[i] = uint16(r.Uint32())
	}
	s.inside(t, func(t testing.TB) { err = s.history(t, choices, tally{}) })
	return err
}
