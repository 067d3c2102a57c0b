package checkpoint

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"time"

	"etl/stream"
)

// EntryKind says what an entry of the contested log decides.
type EntryKind string

// The kinds of entries.
const (
	// EntryAttempt takes the job over.
	EntryAttempt EntryKind = "attempt"
	// EntryCheckpoint publishes a checkpoint.
	EntryCheckpoint EntryKind = "checkpoint"
	// EntryConfirmed notes what recovery or a clean exit has resolved.
	EntryConfirmed EntryKind = "confirmed"
	// EntryAbandoned takes a published checkpoint out of the line of restores.
	EntryAbandoned EntryKind = "abandoned"
	// EntryClosed ends a job whose checkpoints were deleted on cancel.
	EntryClosed EntryKind = "closed"
)

// Entry is one object of the contested log. It never changes.
type Entry struct {
	Seq  uint64    `json:"seq"`
	Kind EntryKind `json:"kind"`
	// Nonce is the random mark of the process that wrote the entry: how a writer
	// tells its own entry from another's after an unknown answer.
	Nonce string    `json:"nonce"`
	At    time.Time `json:"at"`
	// Attempt is the attempt that wrote the entry, or that it opens.
	Attempt stream.Attempt `json:"attempt"`

	// attempt
	Lineage stream.Lineage `json:"lineage,omitzero"`
	Holder  *Holder        `json:"holder,omitempty"`
	// checkpoint
	Metadata *Metadata `json:"metadata,omitempty"`
	// confirmed
	Confirmed map[string]stream.CheckpointID `json:"confirmed,omitempty"`
	// abandoned
	Abandoned stream.CheckpointID `json:"abandoned,omitempty"`
	// Accepted says that what the sinks have committed of it may be written again.
	Accepted bool   `json:"accepted,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

// The frame around an entry: docs/formats/log.md has the byte table.
const (
	entryMagic   = "ETLE"
	entryVersion = 1
	entryHeader  = 4 + 2 + 4 + 4
	maxEntry     = 256 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encodeEntry returns the bytes of an entry's object.
func encodeEntry(e *Entry) ([]byte, error) {
	body, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	if len(body) > maxEntry {
		return nil, fmt.Errorf("%d bytes, more than %d", len(body), maxEntry)
	}
	return frameOf(body), nil
}

func frameOf(body []byte) []byte {
	b := make([]byte, 0, entryHeader+len(body))
	b = append(b, entryMagic...)
	b = binary.LittleEndian.AppendUint16(b, entryVersion)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(body)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(body, castagnoli))
	return append(b, body...)
}

// decodeEntry reads what encodeEntry wrote. Every deviation is an error: an
// entry that cannot be read is a decision that cannot be known.
func decodeEntry(b []byte) (*Entry, error) {
	if len(b) < entryHeader || string(b[:4]) != entryMagic {
		return nil, fmt.Errorf("not a log entry (%d bytes)", len(b))
	}
	if v := binary.LittleEndian.Uint16(b[4:]); v != entryVersion {
		return nil, fmt.Errorf("entry version %d is not known to this binary, which reads version %d", v, entryVersion)
	}
	n, body := binary.LittleEndian.Uint32(b[6:]), b[entryHeader:]
	if int64(n) != int64(len(body)) || n > maxEntry {
		return nil, fmt.Errorf("entry is %d bytes instead of %d", len(body), n)
	}
	if got, want := crc32.Checksum(body, castagnoli), binary.LittleEndian.Uint32(b[10:]); got != want {
		return nil, fmt.Errorf("entry checksum is %08x instead of %08x", got, want)
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	var e Entry
	if err := d.Decode(&e); err != nil {
		return nil, fmt.Errorf("entry body: %w", err)
	}
	if d.InputOffset() != int64(len(body)) {
		return nil, fmt.Errorf("entry body has %d bytes too many", int64(len(body))-d.InputOffset())
	}
	return &e, e.check()
}

// check refuses an entry that lacks what its kind needs.
func (e *Entry) check() error {
	ok := e.Nonce != "" && e.Attempt > 0
	switch e.Kind {
	case EntryAttempt:
		ok = ok && !e.Lineage.IsZero()
	case EntryCheckpoint:
		ok = ok && e.Metadata != nil && e.Metadata.ID != stream.NoCheckpoint
		if ok && e.Metadata.Version > MetadataVersion {
			return fmt.Errorf("metadata version %d is newer than this binary, which reads up to %d", e.Metadata.Version, MetadataVersion)
		}
	case EntryConfirmed:
		ok = ok && e.Confirmed != nil
	case EntryAbandoned:
		ok = ok && e.Abandoned != stream.NoCheckpoint
	case EntryClosed:
	default:
		ok = false
	}
	if !ok {
		return fmt.Errorf("entry of kind %q is incomplete", e.Kind)
	}
	return nil
}

// logPrefix is the folder of the log below the job's root.
const logPrefix = "log/"

func entryName(seq uint64) string { return fmt.Sprintf("%s%012d", logPrefix, seq) }

func entrySeq(name string) (uint64, error) {
	seq, err := strconv.ParseUint(strings.TrimPrefix(name, logPrefix), 10, 64)
	if err == nil && entryName(seq) != name {
		err = fmt.Errorf("entry %d is called %s", seq, entryName(seq))
	}
	return seq, err
}
