package sqltxn

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"etl/sink"
	"etl/stream"
)

// Names makes and reads the outside names of one sink of one job. A prepared transaction
// is called
//
//	etl:<lineage8>:<job>:<sink>:<subtask>:<attempt>.<n>
//
// where attempt.n is the checkpoint. Job and sink are escaped so that no part holds a
// separator, and hashed when they are long, so that a name has at most 199 bytes, which
// is what the server takes.
type Names struct {
	Job     string
	Sink    stream.UID
	Lineage stream.Lineage
}

// GIDPrefix begins the name of every prepared transaction of this program.
const GIDPrefix = "etl:"

// MaxGID is the longest name of a prepared transaction that a server takes, in bytes.
const MaxGID = 199

// GID returns the name of the prepared transaction of a checkpoint of a subtask.
func (n Names) GID(subtask int, id stream.CheckpointID) string {
	return GIDPrefix + n.Lineage.Short() + ":" + n.own() + ":" + strconv.Itoa(subtask) + ":" + id.String()
}

func (n Names) own() string { return component(n.Job) + ":" + component(string(n.Sink)) }

// ID is what the name of a prepared transaction says.
type ID struct {
	Lineage8   string
	Subtask    int
	Checkpoint stream.CheckpointID
}

// ParseGID reads the name of a prepared transaction of this job and sink, of any
// lineage. What GID would not have written is not ours.
func (n Names) ParseGID(s string) (ID, bool) {
	own, id, ok := splitGID(s)
	if !ok || own != n.own() {
		return ID{}, false
	}
	return id, true
}

// Ours reads a name of this very lineage.
func (n Names) Ours(s string) (ID, bool) {
	id, ok := n.ParseGID(s)
	return id, ok && id.Lineage8 == n.Lineage.Short()
}

func splitGID(s string) (own string, id ID, ok bool) {
	parts := strings.Split(s, ":")
	if len(parts) != 6 || parts[0]+":" != GIDPrefix || len(s) > MaxGID || !sink.IsLineage8(parts[1]) {
		return "", ID{}, false
	}
	subtask, ok := sink.ParseNumber(parts[4], 31)
	c, err := stream.ParseCheckpointID(parts[5])
	if !ok || err != nil || c == stream.NoCheckpoint || c.String() != parts[5] {
		return "", ID{}, false
	}
	return parts[2] + ":" + parts[3], ID{Lineage8: parts[1], Subtask: int(subtask), Checkpoint: c}, true
}

// maxComponent is the longest escaped job or sink kept in full.
const maxComponent = 64

// component escapes s for use between colons. A long one keeps its readable beginning, and '~', which no
// escaped text holds, leads a hash of the whole.
func component(s string) string {
	b := sink.EscapeName(s)
	if len(b) <= maxComponent {
		return b
	}
	const digits = 20
	return b[:maxComponent-digits-1] + "~" + digest(s)[:digits]
}

func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(strconv.Itoa(len(p)) + ":" + p))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// StageTable returns the name of the sink's staging table: a readable part, cut off, and
// a hash of job and sink. It does not depend on the lineage: a table outlives many.
func (n Names) StageTable() string {
	b := []byte("stage_")
	for _, c := range []byte(n.Job + "_" + string(n.Sink)) {
		switch {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
			b = append(b, c)
		case 'A' <= c && c <= 'Z':
			b = append(b, c+'a'-'A')
		default:
			b = append(b, '_')
		}
	}
	return string(b[:min(len(b), 46)]) + "_" + digest(n.Job, string(n.Sink))[:16]
}
