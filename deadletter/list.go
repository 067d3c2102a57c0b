package deadletter

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"etl/checkpoint"
	"etl/stream"
)

// listName is the object that says which letters a job of a replay puts back, when they
// lie in a table or in files: docs/formats/log.md. It is written before the job's first
// checkpoint, once, and the positions in its checkpoints count its lines.
const listName = "replay/letters"

// readList returns the letters of a job, in their order; ok is false when it has no list
// yet.
func readList(ctx context.Context, st checkpoint.Storage) (ids []ID, ok bool, err error) {
	text, err := st.Get(ctx, listName)
	if errors.Is(err, checkpoint.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	head, rest, _ := bytes.Cut(text, []byte("\n"))
	n := -1
	if _, err := fmt.Sscanf(string(head), "letters 1 %d", &n); err != nil || n < 0 || len(rest) != n*lineLength {
		return nil, false, badList("it does not begin as one, or is not whole")
	}
	ids = make([]ID, n)
	for i := range ids {
		line := rest[i*lineLength : (i+1)*lineLength]
		if _, err := hex.Decode(ids[i][:], line[:lineLength-1]); err != nil || line[lineLength-1] != '\n' {
			return nil, false, badList(fmt.Sprintf("line %d is no ID", i+2))
		}
	}
	return ids, true, nil
}

// lineLength is that of an ID in hex and its line's end.
const lineLength = 2*len(ID{}) + 1

func badList(why string) error {
	return stream.Errorf(stream.RestoreRefused, "dlq.list", "read the list of letters", listName, "%s", why).
		WithFix("bring it back from a backup: without it nobody knows what was replayed")
}

// writeList writes the list of a job, and returns the one that is there then: another
// process may have been quicker.
func writeList(ctx context.Context, st checkpoint.Storage, ids []ID) ([]ID, error) {
	text := fmt.Appendf(nil, "letters 1 %d\n", len(ids))
	for _, id := range ids {
		text = append(hex.AppendEncode(text, id[:]), '\n')
	}
	if err := st.PutIfAbsent(ctx, listName, text); err != nil && !errors.Is(err, checkpoint.ErrExists) {
		return nil, err
	}
	ids, _, err := readList(ctx, st)
	return ids, err
}

// mostLetters is how many letters one job puts back: its list is read as a whole. The
// next one takes up the others.
const mostLetters = 10_000_000

var errFull = errors.New("the list is full")

// list returns the letters that a job puts back: those of its list, or, at its very
// beginning, those that are there and that no job before has, up to most of them.
func list(ctx context.Context, l Letters, to *reading, most int) ([]ID, error) {
	ids, ok, err := readList(ctx, to.own)
	if ok || err != nil {
		return ids, err
	}
	had := map[ID]bool{}
	for _, st := range to.before {
		before, _, err := readList(ctx, st)
		if err != nil {
			return nil, err
		}
		for _, id := range before {
			had[id] = true
		}
	}
	_, err = l.Read(ctx, to.world, func(f *Found) error {
		if had[f.ID] {
			return nil
		}
		if len(ids) == most {
			return errFull
		}
		ids = append(ids, f.ID)
		return nil
	})
	if err != nil && !errors.Is(err, errFull) {
		return nil, err
	}
	return writeList(ctx, to.own, ids)
}
