package kafkatxn

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"etl/sink"
)

// ShortID returns the stable transactional id of a lane's short transactions. It carries
// no attempt: every delivery of any attempt fences the one before.
func (n Names) ShortID(subtask int) string {
	return n.shorts() + n.Lineage.Short() + "." + strconv.Itoa(subtask)
}

func (n Names) shorts() string {
	return n.prefix() + ".short." + component(n.Job) + "." + component(string(n.Sink)) + "."
}

// ParseShortID reads the id of short transactions of this job and sink, of any lineage.
func (n Names) ParseShortID(s string) (lineage8 string, subtask int, ok bool) {
	rest, ok := strings.CutPrefix(s, n.shorts())
	lineage8, num, cut := strings.Cut(rest, ".")
	v, isNum := sink.ParseNumber(num, 31)
	return lineage8, int(v), ok && cut && isNum && sink.IsLineage8(lineage8)
}

// Lanes returns the subtasks that have delivered under this lineage, as far as the
// coordinators know.
func (s *Shorts) Lanes(ctx context.Context) (subtasks []int, err error) {
	err = s.listed(ctx, func(_, lineage8 string, subtask int, _ string) {
		if lineage8 == s.c.o.Names.Lineage.Short() {
			subtasks = append(subtasks, subtask)
		}
	})
	return subtasks, err
}

func (s *Shorts) listed(ctx context.Context, f func(txid, lineage8 string, subtask int, state string)) error {
	all, err := s.c.listIDs(ctx, s.c.o.Names.shorts(), nil)
	for txid, t := range all {
		if lineage8, subtask, ok := s.c.o.Names.ParseShortID(txid); ok {
			f(txid, lineage8, subtask, t.State)
		}
	}
	return err
}

// Inspect lists the deliveries that are under way, or were left so, read-only.
func (s *Shorts) Inspect(ctx context.Context) ([]sink.InDoubt, error) {
	var out []sink.InDoubt
	var ids []string
	err := s.listed(ctx, func(txid, lineage8 string, subtask int, state string) {
		if state == stateOngoing || (seen{state: state}).unsettled() {
			ids = append(ids, txid)
			out = append(out, sink.InDoubt{ID: txid, Subtask: subtask, State: state, Detail: "lineage " + lineage8})
		}
	})
	if err != nil {
		return nil, err
	}
	states, err := s.c.describe(ctx, ids...)
	if err != nil {
		return nil, err
	}
	rest := out[:0]
	for _, d := range out {
		x := states[d.ID]
		if !x.found || x.state != stateOngoing && !x.unsettled() {
			continue
		}
		d.State = x.state
		if !x.start.IsZero() {
			d.Age = s.c.o.World.Clock.Now().Sub(x.start)
		}
		d.Detail += fmt.Sprintf(", producer %d epoch %d, on %s; the next delivery ends it, or the broker %v after its start", x.pid, x.epoch, partitionList(x), x.timeout)
		rest = append(rest, d)
	}
	return sortInDoubt(rest), nil
}
