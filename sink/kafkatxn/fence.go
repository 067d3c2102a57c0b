package kafkatxn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"etl/internal/broken"
	"etl/internal/fault"
	"etl/internal/kafkaconn"
	"etl/stream"
)

// fencers is how many ids are fenced at once; each takes a few round trips.
const fencers = 8

// enumerated is for how many of the newest owners ids are asked for by name, too: a
// coordinator that is not there is missing from a list without a sound, but not from
// the answer to a question about an id.
const enumerated = 4

// Lanes say which names to enumerate.
type Lanes struct {
	Subtasks int // the parallelism now; more are tried when more are found
	Slots    int // the limit of slots of a subtask
}

// Fence ends what the owners left: afterwards nothing of their transactions can become
// visible, nothing of them holds readers back, and their producers are fenced. It
// touches the ids of the owners and no other, and of those not the transactions of
// keep: a crash loop on one checkpoint finds them as they were. Any number of
// processes may run it, any number of times.
func (c *Client) Fence(ctx context.Context, owners []stream.Attempt, lanes Lanes, keep []*Payload) error {
	if len(owners) == 0 {
		return nil
	}
	fault.Point("kafka.fence.before")
	f, err := c.newFence(ctx, keep)
	if err != nil {
		return err
	}
	ids, err := f.find(ctx, owners, lanes)
	if err != nil {
		return err
	}
	if err := f.all(ctx, ids); err != nil {
		return err
	}
	fault.Point("kafka.fence.after")
	return nil
}

// fence ends ids one by one.
type fence struct {
	c     *Client
	spots []spot         // where they can hang
	hung  map[int64]bool // producer ids that hung somewhere when this began
	keep  []*Payload     // transactions not to touch
}

func (c *Client) newFence(ctx context.Context, keep []*Payload) (*fence, error) {
	spots, err := c.allSpots(ctx, written(keep)...)
	if err != nil {
		return nil, err
	}
	f := &fence{c: c, spots: spots, keep: keep, hung: map[int64]bool{}}
	hs, err := f.hanging(ctx)
	for _, h := range hs {
		f.hung[h.pid] = true
	}
	return f, err
}

func written(ps []*Payload) (topics []string) {
	for _, p := range ps {
		for _, w := range p.Written {
			topics = append(topics, w.Topic)
		}
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}

// find returns the ids of the owners that exist and may need something. An id of an
// owner before the last that is empty and hangs nowhere was sealed by an earlier fence,
// or never used: touching it at every start would keep it from expiring, for ever. Where
// the last owner died before its own fence it may not be sealed; what a stopped process
// then begins under it is swept up.
func (f *fence) find(ctx context.Context, owners []stream.Attempt, lanes Lanes) ([]string, error) {
	listed, err := f.c.list(ctx, nil)
	if err != nil {
		return nil, err
	}
	newest := slices.Max(owners)
	settled := func(txid, state string, pid int64) bool {
		id, _ := f.c.o.Names.ours(txid)
		return state == stateEmpty && id.Attempt < newest && !f.hung[pid]
	}
	var ids []string
	for txid, t := range listed {
		if id, ok := f.c.o.Names.ours(txid); ok && slices.Contains(owners, id.Attempt) {
			lanes.Subtasks, lanes.Slots = max(lanes.Subtasks, id.Subtask+1), max(lanes.Slots, id.Slot+1)
			if !settled(txid, t.State, t.ProducerID) {
				ids = append(ids, txid)
			}
		}
	}
	known, err := f.c.describe(ctx, f.c.enumerate(owners, lanes)...)
	for txid, s := range known {
		if s.found && !settled(txid, s.state, s.pid) {
			ids = append(ids, txid)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), err
}

func (c *Client) enumerate(owners []stream.Attempt, lanes Lanes) (ids []string) {
	owners = slices.Sorted(slices.Values(owners))
	for _, a := range owners[max(0, len(owners)-enumerated):] {
		for sub := range lanes.Subtasks {
			for slot := range lanes.Slots {
				ids = append(ids, c.o.Names.TxID(sub, a, slot))
			}
		}
	}
	return ids
}

// list returns the transactional ids of this sink, of all lineages and attempts. The
// pattern needs Kafka 4.1 and is ignored before; the caller parses what comes.
func (c *Client) list(ctx context.Context, states []string) (map[string]kadm.ListedTransaction, error) {
	return c.listIDs(ctx, c.o.Names.own(), states)
}

func (c *Client) listIDs(ctx context.Context, prefix string, states []string) (out map[string]kadm.ListedTransaction, err error) {
	adm, err := c.admin()
	if err != nil {
		return nil, err
	}
	needs := []kafkaconn.Access{{Kind: kafkaconn.TransactionalID, Name: prefix + "*", Operation: "DESCRIBE"}}
	err = c.ask(ctx, "list transactions", needs, func(ctx context.Context) error {
		ts, err := adm.ListTransactionsByTxPattern(ctx, nil, states, pattern(prefix))
		out = ts
		return err
	})
	return out, err
}

func (f *fence) all(ctx context.Context, ids []string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		wg   sync.WaitGroup
		work = make(chan string)
		mu   sync.Mutex
		errs []error
	)
	for range min(fencers, len(ids)) {
		wg.Go(func() {
			for txid := range work {
				if err := f.one(ctx, txid); err != nil {
					mu.Lock()
					errs = append(errs, err)
					mu.Unlock()
					cancel()
				}
			}
		})
	}
	for _, txid := range ids {
		work <- txid
	}
	close(work)
	wg.Wait()
	if len(errs) > 0 {
		return errs[0] // the others are mostly of the cancel
	}
	return nil
}

// errMoved says that an id changed its state while it was looked at: look again.
var errMoved = errors.New("it moved on")

// one fences one id.
func (f *fence) one(ctx context.Context, txid string) error {
	whole, cancel := context.WithTimeout(ctx, 2*askPatience)
	defer cancel()
	for wait := 2 * time.Millisecond; ; wait = min(2*wait, 250*time.Millisecond) {
		s, err := f.c.describeOne(whole, txid)
		if err != nil {
			return err
		}
		fault.Point("kafka.fence.described")
		if !s.found || f.kept(txid, s) {
			return nil
		}
		err = errMoved
		if !s.unsettled() {
			err = f.end(whole, txid, s)
		}
		if !errors.Is(err, errMoved) {
			return err
		}
		if f.c.o.World.Clock.Sleep(whole, wait) != nil {
			return noAnswer(whole, "fence "+txid, fmt.Errorf("%s", s))
		}
	}
}

// kept reports whether the id still is as a committable left it. One that was used on,
// because it was verified and the marker answers for it, is not.
func (f *fence) kept(txid string, s seen) bool {
	for _, p := range f.keep {
		if p.TxID == txid && s.untouched(p.Txn) {
			return true
		}
	}
	return false
}

// end takes an id in a settled state through repair, abort, clean and seal.
func (f *fence) end(ctx context.Context, txid string, s seen) error {
	if s.state == stateCompleteCommit {
		// Whatever still hangs of it was committed: by somebody who held a permit.
		if err := f.repair(ctx, txid, s); err != nil {
			return err
		}
	}
	if err := f.abort(ctx, txid, s); err != nil {
		return err
	}
	fault.Point("kafka.fence.aborted")
	if err := f.clean(ctx, s.pid, s.epoch); err != nil {
		return err
	}
	sealed, err := f.c.initProducer(ctx, txid)
	if err != nil {
		return err
	}
	fault.Point("kafka.fence.sealed")
	// A zombie may have begun again before the seal, which aborted that.
	return f.clean(ctx, sealed.PID, sealed.Epoch-1)
}

// repair writes the COMMIT markers that a complete transaction lacks. What hangs is
// looked at between two looks at the coordinator, which must agree.
func (f *fence) repair(ctx context.Context, txid string, s seen) error {
	if broken.Is(broken.NoHeal) {
		return nil
	}
	hs, err := f.hangingOf(ctx, s.pid, s.epoch)
	if err != nil || len(hs) == 0 {
		return err
	}
	again, err := f.c.describeOne(ctx, txid)
	if err != nil {
		return err
	}
	if again.state != s.state || again.pid != s.pid || again.epoch != s.epoch {
		return errMoved
	}
	return f.finish(ctx, hs, true)
}

// abort ends what is open. On version 2 it is sent in every state but CompleteAbort:
// after it no EndTxn(commit) that somebody sent before can succeed any more. Version 1
// knows no abort of what is not open, and leaves the fencing to the seal.
func (f *fence) abort(ctx context.Context, txid string, s seen) error {
	if s.state == stateCompleteAbort || f.c.TV < 2 && s.state != stateOngoing {
		return nil
	}
	v, err := f.c.EndTxn(ctx, Txn{TxID: txid, PID: s.pid, Epoch: s.epoch, TV: f.c.TV}, false)
	if v == Final {
		return errMoved // it committed or moved on in between
	}
	if err != nil {
		return err
	}
	return f.awaitSettled(ctx, txid)
}

func (f *fence) awaitSettled(ctx context.Context, txid string) error {
	for wait := 2 * time.Millisecond; ; wait = min(2*wait, 250*time.Millisecond) {
		s, err := f.c.describeOne(ctx, txid)
		if err != nil || !s.unsettled() {
			return err
		}
		if f.c.o.World.Clock.Sleep(ctx, wait) != nil {
			return noAnswer(ctx, "abort "+txid, fmt.Errorf("%s", s))
		}
	}
}

// clean writes the ABORT markers that partitions lack for transactions of a producer
// up to an epoch. None of them was committed: commits of ours are verified before
// anything else happens to the id, and repair came first. Left open, a later commit of
// this producer id would bring the aborted rows back.
func (f *fence) clean(ctx context.Context, pid int64, upTo int16) error {
	if broken.Is(broken.NoClean) {
		return nil
	}
	hs, err := f.hangingOf(ctx, pid, upTo)
	if err != nil || len(hs) == 0 {
		return err
	}
	return f.finish(ctx, hs, false)
}

func (f *fence) hangingOf(ctx context.Context, pid int64, upTo int16) (out []hanging, err error) {
	hs, err := f.hanging(ctx)
	for _, h := range hs {
		if h.pid == pid && h.epoch <= upTo {
			out = append(out, h)
		}
	}
	return out, err
}

// hanging returns what all partitions hold open. Without the right to ask the offsets
// topic it is left out: it holds up no reader of ours, and a fenced id of a lower
// attempt is never committed again.
func (f *fence) hanging(ctx context.Context) (out []hanging, err error) {
	for topic, parts := range byTopic(f.spots) {
		hs, err := f.c.openOnTopic(ctx, topic, parts)
		if err != nil && !(topic == offsetsTopic && kafkaconn.Refused(err)) {
			return nil, err
		}
		out = append(out, hs...)
	}
	return out, nil
}

func (f *fence) finish(ctx context.Context, hs []hanging, commit bool) error {
	if err := f.c.write(ctx, hs, commit); err != nil {
		return err
	}
	f.c.o.World.Log.Warn("wrote transaction markers that the coordinator had skipped (KAFKA-20734)",
		"producer_id", hs[0].pid, "epoch", hs[0].epoch, "commit", commit, "partitions", len(hs))
	return nil
}
