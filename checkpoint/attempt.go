package checkpoint

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"etl/internal/broken"
	"etl/internal/fault"
	"etl/stream"
)

// Attempt is the right to change a job: it was opened by appending an attempt
// entry, and it ends when another process appends one. It appends at the sequence
// number it expects; finding another's entry there means it is fenced.
//
// An Attempt is used by one goroutine at a time.
type Attempt struct {
	st      Storage
	world   stream.World
	number  stream.Attempt
	lineage stream.Lineage
	nonce   string
	next    uint64
	history *History // as it was when the attempt opened, kept up with own appends
	ended   error
}

// AttemptOptions describes who opens an attempt.
type AttemptOptions struct {
	World  stream.World
	Holder Holder
	// Check sees the log that the attempt entry would follow, and may refuse; nil
	// for no check. What it saw is what the entry follows: nobody can come between.
	Check func(*History) error
}

// OpenAttempt takes the job over (V2): it appends an attempt entry with the next
// number, again and again until the entry is its own and the newest of the log.
func OpenAttempt(ctx context.Context, st Storage, o AttemptOptions) (*Attempt, error) {
	raw := make([]byte, 16)
	if _, err := io.ReadFull(o.World.Entropy, raw); err != nil {
		return nil, fmt.Errorf("draw nonce: %w", err)
	}
	a := &Attempt{st: st, world: o.World, nonce: hex.EncodeToString(raw)}
	for {
		h, err := ReadHistory(ctx, st)
		if err != nil {
			return nil, err
		}
		if o.Check != nil {
			if err := o.Check(h); err != nil {
				return nil, err
			}
		}
		e, err := a.claim(h, o.Holder)
		if err != nil {
			return nil, err
		}
		if err := a.append(ctx, e); err == nil {
			if newest, err := a.newest(ctx); newest || err != nil {
				return a, err
			}
			continue
		} else if stream.ClassOf(err) != stream.Fenced {
			return nil, err
		}
		// Another process was quicker: look again and ask for the next number.
		a.ended = nil
	}
}

// newest reports whether the entry that was just appended is the last one.
//
// It need not be. Between reading the log and appending to it, this process may
// have been stopped for as long as a running attempt needs to publish several
// checkpoints and to drop the older ones again, so that the expected place was
// free once more: in the past, where it fences nobody. Such an entry is harmless,
// for its number is never used, but the job is not taken over by it.
func (a *Attempt) newest(ctx context.Context) (bool, error) {
	infos, err := a.st.List(ctx, logPrefix)
	if err != nil {
		return false, storageError("read log", a.st, err)
	}
	return len(infos) > 0 && infos[len(infos)-1].Name == entryName(a.next-1), nil
}

// claim prepares the attempt entry that follows h.
func (a *Attempt) claim(h *History, holder Holder) (*Entry, error) {
	a.history, a.next, a.number, a.lineage = h, h.Next(), h.Last()+1, h.Lineage()
	if a.lineage.IsZero() {
		l, err := stream.NewLineage(a.world.Entropy)
		if err != nil {
			return nil, fmt.Errorf("draw lineage: %w", err)
		}
		a.lineage = l
	}
	holder.Attempt, holder.Since = a.number, a.world.Clock.Now().UTC().Format(time.RFC3339)
	return &Entry{Kind: EntryAttempt, Holder: &holder}, nil
}

// Number returns the attempt's number, Lineage the job's lineage.
func (a *Attempt) Number() stream.Attempt { return a.number }

// Lineage returns the job's lineage.
func (a *Attempt) Lineage() stream.Lineage { return a.lineage }

// History returns the log as this attempt knows it.
func (a *Attempt) History() *History { return a.history }

// append writes e at the expected place. By I4, "exists" or an unknown
// result is always read back and compared by nonce.
func (a *Attempt) append(ctx context.Context, e *Entry) error {
	if a.ended != nil {
		return a.ended
	}
	e.Seq, e.Nonce, e.Attempt, e.Lineage = a.next, a.nonce, a.number, a.lineage
	e.At = a.world.Clock.Now().UTC()
	b, err := encodeEntry(e)
	if err != nil {
		return fmt.Errorf("encode %s entry: %w", e.Kind, err)
	}
	fault.Point("log.append." + string(e.Kind) + ".before")
	if err := a.st.PutIfAbsent(ctx, entryName(e.Seq), b); err != nil {
		if errors.Is(err, ErrNotDurable) {
			a.ended = storageError("append "+string(e.Kind), a.st, err)
			return a.ended
		}
		err = a.settle(ctx, e, err)
		if broken.Is(broken.PublishWithoutLog) && stream.ClassOf(err) == stream.Fenced && e.Kind == EntryCheckpoint {
			a.next++
			return a.append(ctx, e)
		}
		if err != nil {
			a.ended = err
			return err
		}
	}
	fault.Point("log.append." + string(e.Kind) + ".after")
	a.next++
	a.history.Entries = append(a.history.Entries, *e)
	return nil
}

// settle finds out what became of an append whose answer was cause.
func (a *Attempt) settle(ctx context.Context, e *Entry, cause error) error {
	name := entryName(e.Seq)
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		got, err := readEntry(ctx, a.st, name)
		switch {
		case err == nil && got.Nonce == a.nonce && got.Kind == e.Kind:
			return nil
		case err == nil:
			return a.fencedBy(got)
		case errors.Is(err, ErrNotFound) && errors.Is(cause, ErrExists):
			// It existed and retention dropped it: only a later owner does that.
			return stream.Errorf(stream.Fenced, "log.fenced", "append", name, "the entry was another's, and is gone already; this is attempt %d", a.number)
		case errors.Is(err, ErrNotFound):
			// It may still arrive: whether n is published is not known any more, so
			// this attempt must not go on (I4).
			return stream.Errorf(stream.Restart, "log.append_unknown", "append "+string(e.Kind), name,
				"the storage failed (%w) and the entry is not there; it may still arrive", cause)
		case stream.ClassOf(err) == stream.RestoreRefused:
			return err
		}
		if err := a.world.Clock.Sleep(ctx, wait); err != nil {
			return stream.Errorf(stream.Restart, "log.append_unknown", "append "+string(e.Kind), name, "%w", errors.Join(cause, err))
		}
	}
}

// Superseded returns an error of class Fenced when a later attempt was opened. Who
// was taken over meets all kinds of trouble outside (its transactions are ended, the
// markers are ahead of what it restored), which means no more than that. nil when
// nobody did, or the log cannot be read, which is tried for some time.
func (a *Attempt) Superseded(ctx context.Context) error {
	for wait := 10 * time.Millisecond; wait < time.Second; wait *= 2 {
		h, err := ReadHistory(ctx, a.st)
		if err == nil {
			if e := h.Successor(a.number, nil); e != nil {
				return a.fencedBy(e)
			}
			return nil
		}
		if a.world.Clock.Sleep(ctx, wait) != nil {
			return nil
		}
	}
	return nil
}

// Successor returns the entry of the newest attempt above number that another
// process opened than those that are mine, nil when there is none; mine may be nil.
func (h *History) Successor(number stream.Attempt, mine func(Holder) bool) *Entry {
	all := h.Attempts()
	for i := len(all) - 1; i >= 0 && all[i].Attempt > number; i-- {
		if mine == nil || all[i].Holder == nil || !mine(*all[i].Holder) {
			return &all[i]
		}
	}
	return nil
}

// TakenOver is the error of a process whose attempt is over and was followed by
// that of another one, e.
func TakenOver(number stream.Attempt, e *Entry) error {
	return (&Attempt{number: number}).fencedBy(e)
}

func (a *Attempt) fencedBy(e *Entry) error {
	who := "attempt " + fmt.Sprint(e.Attempt)
	if e.Holder != nil {
		who += fmt.Sprintf(" on %s, pid %d", e.Holder.Host, e.Holder.PID)
	}
	return stream.Errorf(stream.Fenced, "log.fenced", "append", entryName(e.Seq),
		"the job was taken over by %s at %s; this is attempt %d", who, e.At.Format(time.RFC3339), a.number).
		WithFix("let the other process run, or stop it before starting this one again")
}

// Publish appends checkpoint m: the one decision that makes it exist (B8). The
// permit it returns allows the commits that m lists (B9). On any error the
// attempt is over.
func (a *Attempt) Publish(ctx context.Context, m *Metadata) (Permit, error) {
	if err := m.CheckChains(); err != nil {
		return Permit{}, fmt.Errorf("publish %s: %w", m.ID, err)
	}
	m.PublishedAt = a.world.Clock.Now().UTC()
	if err := a.append(ctx, &Entry{Kind: EntryCheckpoint, Metadata: m}); err != nil {
		return Permit{}, err
	}
	return mint(m, a.number), nil
}

// Restored returns the permit for a checkpoint that this attempt restores from:
// it is published, and this attempt owns the job.
func (a *Attempt) Restored(id stream.CheckpointID) (Permit, error) {
	m := a.history.Find(id)
	if m == nil {
		return Permit{}, fmt.Errorf("checkpoint %s is not published", id)
	}
	return mint(m, a.number), nil
}

// Confirm notes durably that everything up to the given checkpoints is resolved
// (I11). It appends nothing when nothing is new.
func (a *Attempt) Confirm(ctx context.Context, lanes map[stream.TaskID]stream.CheckpointID) error {
	known, fresh := a.history.Confirmed(), map[stream.TaskID]stream.CheckpointID{}
	for t, id := range lanes {
		if id > known[t] {
			fresh[t] = id
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	return a.append(ctx, &Entry{Kind: EntryConfirmed, Confirmed: Lanes(fresh)})
}

// Abandon takes a published checkpoint out of the line of restores. accepted says
// that somebody accepts its committed rows to be written again.
func (a *Attempt) Abandon(ctx context.Context, id stream.CheckpointID, reason string, accepted bool) error {
	return a.append(ctx, &Entry{Kind: EntryAbandoned, Abandoned: id, Reason: reason, Accepted: accepted})
}

// Close ends the life of the job: a later start begins a new lineage. The caller
// deletes the rest.
func (a *Attempt) Close(ctx context.Context) error {
	return a.append(ctx, &Entry{Kind: EntryClosed})
}
