package redis

import (
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"

	"etl/expr"
	"etl/sink/idempotent"
	"etl/stream"
)

// callRows and callBytes bound one call of the script, for which the server stops for
// everybody else; maxFields is what Lua can pass on at once, halved.
const (
	callRows  = 64
	callBytes = 1 << 20
	maxFields = 2000
	maxKey    = 64 << 10
)

// versionSuffix makes the key of a version of the key of a row.
const versionSuffix = ":etl_version"

// rows is a batch: the last row of each key.
type rows struct {
	s     *store
	index map[string]int
	list  []entry
	n     int
}

// entry is one row as arguments of the script.
type entry struct {
	key  string
	args []any // version, scope, what to do
	size int
	// The record's place, and under DeadLetter all of it.
	record stream.Record
}

// Len counts rows that were replaced, too.
func (r *rows) Len() int { return r.n }

// Free has nothing to give back.
func (r *rows) Free() {}

// Add adds the row of a record.
func (r *rows) Add(rec *stream.Record, v idempotent.Version) (int, error) {
	s := r.s
	s.row = Row{Fields: s.row.Fields[:0], Key: s.row.Key[:0], Value: s.row.Value[:0]}
	if err := s.encode(rec, &s.row); err != nil {
		return 0, err
	}
	if err := s.checkRow(rec); err != nil {
		return 0, err
	}
	e := entry{key: string(s.row.Key), record: s.keepRecord(rec)}
	version := ""
	if s.cfg.Guard != idempotent.NoGuard {
		version = strconv.FormatUint(v.N, 10)
	}
	e.args = append(make([]any, 0, 5+2*len(s.row.Fields)), version, v.Scope)
	e.args = s.row.appendOp(e.args, s.cfg.Kind)
	e.size = len(e.key)
	for _, a := range e.args {
		switch a := a.(type) {
		case string:
			e.size += len(a) + 8
		case []byte:
			e.size += len(a) + 8
		}
	}
	if at, ok := r.index[e.key]; ok {
		r.list[at] = e
	} else {
		r.index[e.key] = len(r.list)
		r.list = append(r.list, e)
	}
	r.n++
	return e.size, nil
}

// appendOp appends what to do; see script.
func (row *Row) appendOp(args []any, k Kind) []any {
	switch {
	case row.Delete:
		return append(args, "D")
	case k != Hash:
		return append(args, "S", clone(row.Value))
	}
	n := 0
	for _, f := range row.Fields {
		if f.Value != nil {
			n++
		}
	}
	args = append(args, "H", n)
	for _, f := range row.Fields {
		if f.Value != nil {
			args = append(args, f.Name, clone(f.Value))
		}
	}
	args = append(args, len(row.Fields)-n)
	for _, f := range row.Fields {
		if f.Value == nil {
			args = append(args, f.Name)
		}
	}
	return args
}

func clone(b []byte) []byte { return append([]byte{}, b...) }

// checkRow refuses what the server would refuse, or keep in another way than meant.
func (s *store) checkRow(rec *stream.Record) error {
	row := &s.row
	bad := func(code, format string, args ...any) error {
		return stream.Errorf(stream.Failed, "redis."+code, "write row", expr.Where(rec), format, args...)
	}
	switch {
	case len(row.Key) == 0:
		return bad("key", "the row has no key")
	case len(row.Key) > maxKey:
		return bad("key", "the key has %d bytes, more than the %d a key may have", len(row.Key), maxKey)
	case row.Delete:
		return nil
	case s.cfg.Kind == Hash && len(row.Fields) > maxFields:
		return bad("fields", "the row has %d fields, more than the %d a hash may be given", len(row.Fields), maxFields)
	case s.cfg.Kind == Counter:
		if _, err := strconv.ParseInt(string(row.Value), 10, 64); err != nil {
			return bad("counter", "the value is not a whole number of 64 bits")
		}
	}
	return nil
}

func (s *store) keepRecord(r *stream.Record) stream.Record {
	made := r.Made
	r = r.AsRead() // what a dead letter holds
	out := stream.Record{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp, Pos: -1, Made: made}
	if s.cfg.OnError != idempotent.DeadLetter {
		return out
	}
	if r.Key != nil {
		out.Key = clone(r.Key)
	}
	if r.Value != nil {
		out.Value = clone(r.Value)
	}
	for _, h := range r.Headers {
		if h.Value != nil {
			h.Value = clone(h.Value)
		}
		out.Headers = append(out.Headers, h)
	}
	return out
}

// Write sends the batch in one pipeline of calls.
func (r *rows) Write(ctx context.Context) ([]idempotent.Rejected, error) {
	s := r.s
	if err := s.sameRun(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	pipe := s.client.Pipeline()
	var parts [][]entry
	var cmds []*redis.Cmd
	for rest := r.list; len(rest) > 0; {
		n, size := 0, 0
		for n < len(rest) && n < callRows && (n == 0 || size+rest[n].size <= callBytes) {
			size += rest[n].size
			n++
		}
		parts, cmds = append(parts, rest[:n]), append(cmds, pipe.Do(ctx, s.call(rest[:n])...))
		rest = rest[n:]
	}
	_, err := pipe.Exec(ctx)
	if again := s.sameRun(); again != nil {
		return nil, again
	}
	if err != nil {
		return nil, s.explain(ctx, err, "write rows")
	}
	return refused(parts, cmds)
}

// call is one call of the script.
func (s *store) call(es []entry) []any {
	args := make([]any, 0, 4+8*len(es))
	args = append(args, "EVALSHA", scriptSHA, 2*len(es))
	for i := range es {
		args = append(args, es[i].key, es[i].key+versionSuffix)
	}
	args = append(args, int64(s.cfg.Tombstones.Seconds()))
	for i := range es {
		args = append(args, es[i].args...)
	}
	return args
}

// refused reads the answers of the script.
func refused(parts [][]entry, cmds []*redis.Cmd) (out []idempotent.Rejected, err error) {
	for i, cmd := range cmds {
		answers, err := cmd.Slice()
		if err != nil || len(answers) != len(parts[i]) {
			return nil, stream.Errorf(stream.Failed, "redis.answer", "write rows", "", "the script answered for %d of %d rows: %w", len(answers), len(parts[i]), err)
		}
		for k, a := range answers {
			if text, bad := a.(string); bad {
				out = append(out, idempotent.Rejected{Record: parts[i][k].record, Code: "redis.row", Message: text})
			}
		}
	}
	return out, nil
}
