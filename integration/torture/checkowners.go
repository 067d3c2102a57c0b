package torture

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
)

// entry is what the harness reads of one entry of the contested log, by the page
// docs/formats/log.md and not by the code.
type entry struct {
	Seq      uint64 `json:"seq"`
	Kind     string `json:"kind"`
	Nonce    string `json:"nonce"`
	Attempt  uint32 `json:"attempt"`
	Metadata struct {
		ID string `json:"id"`
	} `json:"metadata"`
}

// storage is the folder of the job's checkpoints.
func (j *Job) storage() string {
	for _, pattern := range []string{"*/log", "*/*/log"} {
		if found, _ := filepath.Glob(filepath.Join(j.Dir, pattern)); len(found) > 0 {
			return filepath.Dir(found[0])
		}
	}
	return ""
}

func readEntries(storage string) (out []entry, err error) {
	files, err := filepath.Glob(filepath.Join(storage, "log", "0*"))
	slices.Sort(files)
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		if len(b) < 14 || string(b[:4]) != "ETLE" || int(binary.LittleEndian.Uint32(b[6:])) != len(b)-14 ||
			binary.LittleEndian.Uint32(b[10:]) != crc32.Checksum(b[14:], crc32.MakeTable(crc32.Castagnoli)) {
			return nil, fmt.Errorf("%s is no entry", f)
		}
		var e entry
		if err := json.Unmarshal(b[14:], &e); err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		out = append(out, e)
	}
	return out, err
}

// checkOwners reads the contested log: attempts rise, and each writes nothing once
// a later one has begun.
func (l *Life) checkOwners() {
	es, err := readEntries(l.job.storage())
	if err != nil || len(es) == 0 {
		l.Add(Owners, "the log cannot be read: %d entries, %v", len(es), err)
		return
	}
	owner, nonce := uint32(0), ""
	for _, e := range es {
		switch {
		case e.Kind == "attempt" && e.Attempt <= owner:
			l.Add(Owners, "entry %d: attempt %d after %d", e.Seq, e.Attempt, owner)
		case e.Kind == "attempt":
			owner, nonce = e.Attempt, e.Nonce
		case e.Attempt != owner || e.Nonce != nonce:
			l.Add(Owners, "entry %d: %s %s by attempt %d, the owner is %d", e.Seq, e.Kind, e.Metadata.ID, e.Attempt, owner)
		}
	}
}
