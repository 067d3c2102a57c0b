package deadletter

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"etl/checkpoint"
	"etl/source"
	"etl/stream"
)

// listed is the source of a replay from a store without positions of its own. Its one
// split is the list of the job: offset i is the list's letter i. The letters themselves
// are read where they lie, in the order of the list. One that has been deleted since the
// list was written is passed over; one that came since is for the next job.
type listed struct {
	letters Letters
	to      *reading
	ids     []ID
}

// newListed returns the source of a job. The list is written before it returns.
func newListed(ctx context.Context, l Letters, to *reading) (source.Connector, error) {
	ids, err := list(ctx, l, to, mostLetters)
	return &listed{letters: l, to: to, ids: ids}, err
}

func (s *listed) NewEnumerator() source.Enumerator { return listedSplits{s} }
func (s *listed) NewReader() source.Reader         { return &listedReader{listed: s} }
func (*listed) Bounded() bool                      { return true }

// listedSplits finds the one split.
type listedSplits struct{ *listed }

func (listedSplits) Open(context.Context, stream.Env) error { return nil }
func (listedSplits) Close() error                           { return nil }

func (listedSplits) Report(context.Context, checkpoint.Permit, []stream.Split) error { return nil }

func (s listedSplits) Discover(_ context.Context, known []stream.Split) ([]stream.Split, error) {
	split := stream.Split{Topic: s.letters.Place(), LeaderEpoch: -1, End: int64(len(s.ids))}
	switch {
	case len(known) == 0:
		return []stream.Split{split}, nil
	case len(known) > 1 || known[0].End != split.End:
		return nil, badList(fmt.Sprintf("it has %d letters, and the checkpoint counts %d", split.End, known[0].End))
	}
	return nil, nil
}

// listedReader reads the letters of the list.
type listedReader struct {
	*listed
	split []stream.Split // one, or none in a subtask that has nothing to read
	next  func() (*Found, error, bool)
	stop  func()
	at    map[ID]int64 // the place of each letter in the list
	last  int64        // of what was read, in the list
}

func (r *listedReader) Open(_ context.Context, _ source.Env, splits []stream.Split) error {
	return r.Assign(splits)
}

func (r *listedReader) Assign(add []stream.Split) error {
	r.split = append(r.split, add...)
	return nil
}

// Wake does nothing: a Poll does not wait for anything but the store's answer.
func (*listedReader) Wake() {}

func (r *listedReader) Splits() []stream.Split { return append([]stream.Split(nil), r.split...) }

func (r *listedReader) Close() error {
	if r.stop != nil {
		r.stop()
	}
	return nil
}

const (
	batchLetters = 500
	batchBytes   = 1 << 20
)

// Poll returns the next letters of the list.
func (r *listedReader) Poll(ctx context.Context) (stream.Element, error) {
	if len(r.split) == 0 || r.split[0].Finished() {
		return stream.EndOfInput{}, nil
	}
	if r.next == nil {
		r.begin(ctx)
	}
	b, size := stream.NewBatch(stream.LetterSchema), 0
	for s := &r.split[0]; len(b.Records) < batchLetters && size < batchBytes; {
		l, err, more := r.next()
		if err != nil {
			b.Release()
			return nil, err
		}
		if !more {
			r.to.tally.Gone.Add(s.End - s.NextOffset)
			s.NextOffset = s.End
			break
		}
		i, ok := r.at[l.ID]
		if !ok {
			continue
		}
		if i <= r.last {
			b.Release()
			return nil, stream.Errorf(stream.Failed, "dlq.order", "read dead letters", r.letters.Place(), "letter %s came behind one that the list has later", l.At)
		}
		if r.last = i; i < s.NextOffset {
			continue
		}
		r.to.tally.Gone.Add(i - s.NextOffset)
		s.NextOffset = i + 1
		l.AppendTo(b)
		size += len(l.Key) + len(l.Value)
	}
	if len(b.Records) == 0 {
		b.Release()
		return stream.EndOfInput{}, nil
	}
	return b, nil
}

var errStopped = errors.New("the reading was stopped")

// begin starts to read where the letters lie; next and stop take turns with it.
func (r *listedReader) begin(ctx context.Context) {
	r.at = make(map[ID]int64, len(r.ids))
	for i, id := range r.ids {
		r.at[id] = int64(i)
	}
	r.last = -1
	r.next, r.stop = iter.Pull2(func(yield func(*Found, error) bool) {
		stopped := false
		others, err := r.letters.Read(ctx, r.to.world, func(l *Found) error {
			if stopped = !yield(l, nil); stopped {
				return errStopped
			}
			return nil
		})
		r.to.tally.Others.Add(others)
		if err != nil && !stopped {
			yield(nil, err)
		}
	})
}
