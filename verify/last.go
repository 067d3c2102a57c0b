package verify

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"etl/expr"
	"etl/stream"
)

// LastSink is what a sink has beyond Sink that keeps one row per key outside of Kafka, of
// which the last one counts. Exactly one of Postgres and Redis is set.
type LastSink struct {
	// Key and Fields are the expressions of the row, under the names of columns or fields.
	Key, Fields []Field
	Postgres    *PostgresTable
	Redis       *RedisKeys
}

// RedisKeys are the keys under a prefix: hashes, or strings.
type RedisKeys struct {
	Address, Username, Password string
	Database                    int
	Prefix                      string
	Hash                        bool
}

// lastRows recomputes the last row of each key, and compares it with what is there.
type lastRows struct {
	*node
	spec   *LastSink
	name   string
	feeds  []*feed
	keys   []*expr.Program
	fields []*expr.Program
	// want are the last rows of each key, one for each stream of records that it comes in:
	// between two streams there is no order, and any of them may be the last.
	want map[string]map[uint16]string
	seen streams
	got  map[string]string
	// columns are those of a table.
	columns tableColumns
	// ignored are fields that cannot be compared, and why nothing can, "" when it can.
	ignored []string
	opaque  string
	res     SinkResult
}

const absent = "(no row)"

func (p *plan) addLast(sp *sinkPlan, env expr.Env) error {
	l := &lastRows{node: sp.node, spec: sp.spec.Last, want: map[string]map[uint16]string{}, got: map[string]string{}}
	compile := func(fs []Field) (out []*expr.Program, err error) {
		for _, f := range fs {
			prog, err := compileIn(sp.node.name, f.Name, f.Value, env)
			if err != nil {
				return nil, err
			}
			out = append(out, prog)
		}
		return out, nil
	}
	var err error
	if l.keys, err = compile(l.spec.Key); err != nil {
		return err
	}
	if l.fields, err = compile(l.spec.Fields); err != nil {
		return err
	}
	l.name = "redis " + strconv.Quote(sp.node.name)
	if t := l.spec.Postgres; t != nil {
		l.name = t.name()
		for _, f := range slices.Concat(l.spec.Key, l.spec.Fields) {
			l.columns.names = append(l.columns.names, f.Name)
		}
	} else if r := l.spec.Redis; r != nil {
		l.name = "redis " + r.Prefix + "*"
	}
	l.res.Topic = l.name
	sp.last = l
	p.lasts = append(p.lasts, l)
	return nil
}

// text is the value of a field as it is compared: exact, and without the ways to write it.
func (l *lastRows) text(f Field, v expr.Value) (string, error) {
	switch {
	case l.spec.Postgres != nil && slices.Contains(l.ignored, f.Name):
		return "", nil
	case l.spec.Postgres != nil:
		text, err := l.columns.expected(nil, f.Name, v)
		return string(text), err
	}
	if s, ok := v.Text(); ok {
		return s, nil
	}
	return string(v.AppendJSON(nil)), nil
}

// expect takes a record that comes to the sink.
func (l *lastRows) expect(f *feed, rec *stream.Record) {
	key, row, err := l.row(rec)
	if err != nil {
		l.reject(err)
		return
	}
	if l.want[key] == nil {
		l.want[key] = map[uint16]string{}
	}
	l.want[key][l.seen.of(f, rec)] = row
}

func (l *lastRows) row(rec *stream.Record) (key, row string, err error) {
	parts := make([]string, len(l.keys))
	for i, p := range l.keys {
		v, err := l.ev.Value(p, rec)
		if err != nil {
			return "", "", err
		}
		if v.IsNull() {
			return "", "", errNoKey
		}
		if parts[i], err = l.text(l.spec.Key[i], v); err != nil {
			return "", "", err
		}
	}
	if key = l.join(parts); rec.Value == nil {
		return key, absent, nil
	}
	values := map[string]string{}
	for i, p := range l.fields {
		v, err := l.ev.Value(p, rec)
		if err != nil {
			return "", "", err
		}
		if v.IsNull() {
			continue
		}
		if values[l.spec.Fields[i].Name], err = l.text(l.spec.Fields[i], v); err != nil {
			return "", "", err
		}
	}
	return key, l.show(values), nil
}

// join makes one text of a key.
func (l *lastRows) join(parts []string) string {
	if l.spec.Redis == nil {
		return strings.Join(parts, ", ")
	}
	if len(parts) > 1 {
		for i := range parts {
			parts[i] = strings.NewReplacer("%", "%25", ":", "%3A").Replace(parts[i])
		}
	}
	return l.spec.Redis.Prefix + strings.Join(parts, ":")
}

// show makes one text of a row; a null field is not in it.
func (l *lastRows) show(values map[string]string) string {
	var b strings.Builder
	for _, f := range l.spec.Fields {
		if v, ok := values[f.Name]; ok && !slices.Contains(l.ignored, f.Name) {
			b.WriteString(f.Name + "=" + strconv.Quote(v) + " ")
		}
	}
	return b.String()
}

// readLast reads a store. It comes before the sources, as all sinks do.
func (c *recounting) readLast(ctx context.Context, l *lastRows) error {
	read := l.readRedis
	if l.spec.Postgres != nil {
		read = l.readTable
	}
	if err := read(ctx); err != nil {
		if l.spec.Postgres != nil {
			return unreadable(err, l.spec.Postgres)
		}
		return problem("read", l.name, "%w", err)
	}
	l.res.Rows = int64(len(l.got))
	c.r.RecordsOut += l.res.Rows
	return nil
}

// checkLast compares, once all is read.
func (c *recounting) checkLast(l *lastRows) {
	for _, f := range l.feeds {
		if a := f.from.agg; a != nil && l.opaque == "" {
			if l.opaque = behindOf(a); l.opaque == "" {
				l.fromAggregate(f, a)
			}
		}
	}
	defer func() { c.r.Sinks = append(c.r.Sinks, l.res) }()
	if l.opaque != "" {
		c.r.leftOut(l.node.name, "%s: everything: %s", l.name, l.opaque)
		return
	}
	for key, rows := range l.want {
		c.oneLast(l, key, rows)
	}
	for key := range l.got {
		if l.want[key] == nil {
			c.r.found(&l.res, 1, Finding{Kind: Altered, Topic: l.name, Key: key, Why: "no record gives a row of this key"})
		}
	}
	c.r.checked("%s: %s keys: the row of each is the one that its last record gives, and no other key has one", l.name, thousands(int64(len(l.want))))
	c.r.notChecked("%s: what readers saw before: a store keeps no history", l.name)
	if len(l.ignored) > 0 {
		c.r.notChecked("%s: %s: values of their types have many forms", l.name, strings.Join(l.ignored, ", "))
	}
	if !c.o.Finished {
		c.r.notChecked("%s: whether rows that are not the last ones are older or altered: the job runs", l.name)
	}
}

func behindOf(a *aggregate) string {
	if a.behind == "" {
		return ""
	}
	return a.name + " takes from " + a.behind + ", whose rows depend on the order in which it worked"
}

// oneLast compares the row of a key.
func (c *recounting) oneLast(l *lastRows, key string, rows map[uint16]string) {
	got, ok := l.got[key]
	if !ok {
		got = absent
	}
	for _, want := range rows {
		if got == want {
			return
		}
	}
	f := Finding{Kind: Behind, Topic: l.name, Key: key, Why: "the row is not the one of the last record"}
	switch {
	case !c.o.Finished:
	case ok:
		f.Kind = Altered
	default:
		f.Kind, f.Why = Missing, "the key has no row"
	}
	c.r.found(&l.res, 1, f)
}

// fromAggregate sends the full result of each key down the feed.
func (l *lastRows) fromAggregate(f *feed, a *aggregate) {
	for id := range a.keyed {
		state := make([]cell, len(a.items))
		var trigger *input
		for i := a.keyed[id].last; i >= 0; {
			in := a.inputs.at(i)
			a.add(state, a.contributions[in.contribution])
			if trigger == nil && a.onChange {
				trigger = in
			}
			i = in.prev
		}
		group := a.keyed[id].group
		l.push(f, a.record(a.show(nil, group, state), group, &a.seen, trigger), 0)
	}
}

func (l *lastRows) push(f *feed, rec *stream.Record, at int) {
	if at == len(f.chain) {
		// All of a key's results are one stream: only the last one is computed.
		rec.Topic, rec.Partition = "", 0
		l.expect(f, rec)
		return
	}
	f.chain[at].apply(rec, func(r *stream.Record) { l.push(f, r, at+1) })
}
