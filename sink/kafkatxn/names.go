package kafkatxn

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"

	"etl/sink"
	"etl/stream"
)

// DefaultPrefix is what all outside names begin with unless a job says otherwise.
const DefaultPrefix = "etl"

// Names makes and reads the outside names of one sink of one job: transactional ids
//
//	<prefix>.<job>.<sink>.<subtask>.<lineage8>.<attempt>.<slot>
//
// and marker groups
//
//	<prefix>.commit.<job>.<sink>.<lineage8>.<subtask>
//
// Job and sink are escaped so that no part holds a separator, and hashed when they
// are long. Names are read from the right, so the prefix may hold anything.
type Names struct {
	Prefix  string // default DefaultPrefix
	Job     string
	Sink    stream.UID
	Lineage stream.Lineage
}

// ID is what a transactional id says.
type ID struct {
	Subtask  int
	Lineage8 string
	Attempt  stream.Attempt
	Slot     int
}

func (n Names) prefix() string {
	if n.Prefix == "" {
		return DefaultPrefix
	}
	return n.Prefix
}

// own is the part that all transactional ids of the sink begin with.
func (n Names) own() string {
	return n.prefix() + "." + component(n.Job) + "." + component(string(n.Sink)) + "."
}

// TxID returns the transactional id of a slot of a subtask in one attempt.
func (n Names) TxID(subtask int, attempt stream.Attempt, slot int) string {
	return n.own() + strings.Join([]string{
		strconv.Itoa(subtask), n.Lineage.Short(), strconv.FormatUint(uint64(attempt), 10), strconv.Itoa(slot),
	}, ".")
}

// ParseTxID reads a transactional id of this job and sink, of any lineage. Whatever
// TxID would not have written is not ours.
func (n Names) ParseTxID(s string) (id ID, ok bool) {
	rest, ok := strings.CutPrefix(s, n.own())
	parts := strings.Split(rest, ".")
	if !ok || len(parts) != 4 || !sink.IsLineage8(parts[1]) {
		return ID{}, false
	}
	subtask, ok1 := sink.ParseNumber(parts[0], 31)
	attempt, ok2 := sink.ParseNumber(parts[2], 32)
	slot, ok3 := sink.ParseNumber(parts[3], 31)
	id = ID{Subtask: int(subtask), Lineage8: parts[1], Attempt: stream.Attempt(attempt), Slot: int(slot)}
	return id, ok1 && ok2 && ok3 && attempt > 0
}

// ours reads a transactional id of this very lineage.
func (n Names) ours(s string) (ID, bool) {
	id, ok := n.ParseTxID(s)
	return id, ok && id.Lineage8 == n.Lineage.Short()
}

// Pattern is a regular expression that matches all transactional ids of the sink and,
// because brokers differ in dialect, perhaps others: ParseTxID has the last word.
func (n Names) Pattern() string { return pattern(n.own()) }

func pattern(prefix string) string { return "^" + regexp.QuoteMeta(prefix) + ".*$" }

// groups is the part that all marker groups of the sink begin with.
func (n Names) groups() string {
	return n.prefix() + ".commit." + component(n.Job) + "." + component(string(n.Sink)) + "."
}

// Group returns the marker group of a lane.
func (n Names) Group(subtask int) string {
	return n.groups() + n.Lineage.Short() + "." + strconv.Itoa(subtask)
}

// ParseGroup reads a marker group of this job and sink, of any lineage.
func (n Names) ParseGroup(s string) (lineage8 string, subtask int, ok bool) {
	rest, ok := strings.CutPrefix(s, n.groups())
	lineage8, num, cut := strings.Cut(rest, ".")
	v, isNum := sink.ParseNumber(num, 31)
	return lineage8, int(v), ok && cut && isNum && sink.IsLineage8(lineage8)
}

// maxComponent is the longest escaped job or sink kept in full. With it a name stays
// below 249 bytes, where tools of other vendors begin to refuse.
const maxComponent = 64

// component escapes s for use between dots. A long one keeps its readable beginning, and '~', which no
// escaped text holds, leads a hash of the whole.
func component(s string) string {
	b := sink.EscapeName(s)
	if len(b) <= maxComponent {
		return b
	}
	sum := sha256.Sum256([]byte(s))
	const digits = 20
	return b[:maxComponent-digits-1] + "~" + hex.EncodeToString(sum[:])[:digits]
}
