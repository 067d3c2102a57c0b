package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"etl/internal/pgconn"
	"etl/stream"
)

// AppendSink is what a sink that appends rows to a table has beyond Sink. All rows of the
// table are the job's.
type AppendSink struct {
	Postgres PostgresTable
	Columns  []Field
}

// appendTarget is a table that rows are appended to: its rows as they are found, of which
// nothing tells the order.
type appendTarget struct {
	tableColumns
	table  *PostgresTable
	by     string   // the column to read rows by
	parts  []string // the tables that rows lie in: itself, or its partitions
	target *target
}

// appendRows computes the rows of one sink.
type appendRows struct {
	*node
	at  *appendTarget
	buf []byte
}

// compileAppend compiles what a sink has that appends to a table.
func (s *sinkPlan) compileAppend(t *target) {
	a, names := s.spec.Append, slices.Clone(s.names)
	at, ok := t.place.(*appendTarget)
	if !ok {
		at = &appendTarget{table: &a.Postgres, target: t, tableColumns: tableColumns{names: names}}
		t.place = at
	}
	if !slices.Equal(at.names, names) {
		t.opaque = "two sinks write different columns, or in another order"
	}
	s.rows = &appendRows{node: s.node, at: at}
}

func (a *appendTarget) compared() string {
	if len(a.ignored) > 0 {
		return "the columns of each row but " + strings.Join(a.ignored, ", ") + ", and how often it is there"
	}
	return "the columns of each row, and how often it is there"
}

func (a *appendTarget) unordered() string   { return "a table keeps none" }
func (a *appendTarget) sortBy(field string) { a.by = field }

func (a *appendTarget) read(ctx context.Context, c *recounting, t *target) error {
	p, err := pgconn.Open(ctx, a.table.Conn, 1, "etl verify")
	if err != nil {
		return unreadable(err, a.table)
	}
	defer p.Close()
	if err := p.With(ctx, func(conn *pgconn.Conn) error { return a.readAll(ctx, conn, c) }); err != nil {
		return unreadable(err, a.table)
	}
	c.r.RecordsOut += t.res.Rows
	if t.opaque == "" {
		c.r.checked("%s: all rows that are visible, read in one statement: %s rows", t.topic, thousands(t.res.Rows))
	}
	if len(a.ignored) > 0 {
		c.r.notChecked("%s: %s: values of their types have many forms", t.topic, strings.Join(a.ignored, ", "))
	}
	return nil
}

func (a *appendTarget) readAll(ctx context.Context, conn *pgconn.Conn, c *recounting) error {
	if err := a.ask(ctx, conn, a.table); err != nil {
		return err
	}
	a.fit()
	query := "SELECT t.tableoid::regclass::text, t.ctid::text, " + a.list() + " FROM " + pgconn.Ident(a.table.Schema, a.table.Table) + " t"
	if a.by != "" {
		query += " ORDER BY t." + pgconn.Ident(a.by)
	}
	a.target.sums = make([]uint64, 1)
	return conn.Query(ctx, query, nil, func(r pgx.Rows) error {
		var part, ctid, doc string
		if err := r.Scan(&part, &ctid, &doc); err != nil {
			return err
		}
		if a.target.res.Rows%65536 == 0 {
			c.o.Progress(Progress{"read " + a.target.topic, a.target.res.Rows, a.target.res.Rows})
		}
		return a.take(part, ctid, doc)
	})
}

// fit looks at what types mean for the comparison.
func (a *appendTarget) fit() {
	if len(a.ignored) == len(a.names) {
		a.target.opaque = "values of the types of all its columns have many forms"
	}
	for _, k := range a.target.keyed {
		for _, name := range k.feed.shown {
			if name != "" && !slices.Contains(plainTypes, a.types[name]) {
				a.target.opaque = fmt.Sprintf("the column %s of the type %s does not give the results of %s back as they were", name, a.types[name], k.agg.name)
			}
		}
	}
}

// take adds a row to the target.
func (a *appendTarget) take(part, ctid, doc string) error {
	values, err := a.found(doc)
	if err != nil {
		return err
	}
	value, err := a.object(nil, func(dst []byte, i int) ([]byte, error) { return append(dst, values[a.names[i]]...), nil })
	if err != nil {
		return err
	}
	n := slices.Index(a.parts, part)
	if n < 0 {
		n, a.parts = len(a.parts), append(a.parts, part)
	}
	var block, row int64
	if _, err := fmt.Sscanf(ctid, "(%d,%d)", &block, &row); err != nil {
		return err
	}
	a.target.addDocument(value, nil, 0, packedPlace(int64(n), block<<16|row))
	return nil
}

// locate names the row as the server does.
func (a *appendTarget) locate(f *Finding) {
	part, at := unpackedPlace(f.Offset)
	if part < int64(len(a.parts)) {
		f.Place = fmt.Sprintf("%s ctid (%d,%d)", a.parts[part], at>>16, at&0xffff)
	}
}

var errTombstone = errors.New("a record without a value is no row")

func (r *appendRows) row(s *sinkPlan, rec *stream.Record) (value []byte, headers []stream.Header, err error) {
	if rec.Value == nil {
		return nil, nil, errTombstone
	}
	r.buf, err = r.at.object(r.buf[:0], func(dst []byte, i int) ([]byte, error) {
		v, err := s.ev.Value(s.programs[i], rec)
		if err != nil {
			return dst, err
		}
		return r.at.expected(dst, r.at.names[i], v)
	})
	return r.buf, nil, err
}

// showsKeys is decided when the types of columns are known: see fit.
func (r *appendRows) showsKeys([]string) bool { return true }
