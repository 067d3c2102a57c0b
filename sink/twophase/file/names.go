package file

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"etl/stream"
)

// maxName is the most bytes a name in a directory has.
const maxName = 255

// hidden is the sink's own directory below its path. Programs that read directories of
// files leave names alone that begin with a dot.
const hidden = ".etl"

// nullPartition stands for null in a partition's name, as Hive words it.
const nullPartition = "__HIVE_DEFAULT_PARTITION__"

// escape writes everything but letters, digits, '-' and '_' as %XX.
func escape(s string) string { return string(appendEscaped(nil, s, "-_")) }

// appendEscaped writes everything but letters, digits and what is plain as %XX.
func appendEscaped(dst []byte, s, plain string) []byte {
	const hex = "0123456789ABCDEF"
	for i := range len(s) {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte(plain, c) >= 0 {
			dst = append(dst, c)
			continue
		}
		dst = append(dst, '%', hex[c>>4], hex[c&15])
	}
	return dst
}

// homeOf returns the directory of all lineages of a job's sink.
func homeOf(job string, uid stream.UID) string {
	return path.Join(hidden, escape(job), escape(string(uid)))
}

// dirName is the name of an epoch's directory.
type dirName struct {
	// prefix is open-, dead- or nothing: being written, being removed, prepared.
	prefix  string
	attempt stream.Attempt
	subtask int
	n       uint32 // of the checkpoint; of an open one, the number of the epoch
}

const (
	open = "open-"
	dead = "dead-"
)

func preparedDir(id stream.CheckpointID, subtask int) dirName {
	return dirName{attempt: id.Attempt(), subtask: subtask, n: id.N()}
}

func (d dirName) String() string {
	return fmt.Sprintf("%s%d-%d-%d", d.prefix, d.attempt, d.subtask, d.n)
}

// checkpoint returns the checkpoint a prepared epoch belongs to.
func (d dirName) checkpoint() stream.CheckpointID { return stream.NewCheckpointID(d.attempt, d.n) }

// parseDir reads what String writes; ok is false for anything else.
func parseDir(name string) (d dirName, ok bool) {
	rest := name
	// What was open when it was fenced is dead-open-.
	for _, p := range []string{dead, open} {
		if after, cut := strings.CutPrefix(rest, p); cut {
			d.prefix, rest = d.prefix+p, after
		}
	}
	var nums [3]uint64
	parts := strings.Split(rest, "-")
	if len(parts) != len(nums) {
		return d, false
	}
	for i, p := range parts {
		n, err := strconv.ParseUint(p, 10, 32)
		if err != nil {
			return d, false
		}
		nums[i] = n
	}
	d.attempt, d.subtask, d.n = stream.Attempt(nums[0]), int(nums[1]), uint32(nums[2])
	return d, d.String() == name
}

// partName returns the name under which readers find part seq of an epoch. No other job,
// sink or life of one makes the same, not even from a copy of the job's storage.
func partName(job string, uid stream.UID, l stream.Lineage, id stream.CheckpointID, subtask, seq int, ext string) string {
	return fmt.Sprintf("%s.%s.%s-%05d-%04d-%08d-%04d%s", escape(job), escape(string(uid)), l.Short(), id.Attempt(), subtask, id.N(), seq, ext)
}

// pendingName is the name of part seq while it is hidden: no pattern for data files
// matches it.
func pendingName(seq int) string { return fmt.Sprintf("%06d.pending", seq) }

// extension returns the end of part names.
func (c *Config) extension() string {
	ext := map[Format]string{JSON: ".jsonl", CSV: ".csv", Parquet: ".parquet"}[c.Format]
	if c.Format != Parquet {
		ext += map[Compression]string{Gzip: ".gz", Zstd: ".zst"}[c.Compression]
	}
	return ext
}
