package sqltxn

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"etl/internal/pgconn"
	"etl/stream"
)

// Layout says how the rows of a target lie in a write-ahead log, and what they need to be
// written by another process, whatever has become of the pipeline file since. It is plain
// data (docs/formats/wal.md).
type Layout struct {
	Schema string `json:"schema"`
	Table  string `json:"table"`
	Book   string `json:"book"`
	Mode   Mode   `json:"mode"`
	// Columns are the target's, those of the key first; Key is their number. Types are
	// the identifiers of their types, which say how the values were encoded, and Declared
	// what they are called.
	Columns  []string `json:"columns"`
	Types    []uint32 `json:"types"`
	Declared []string `json:"declared"`
	Key      int      `json:"key"`
	// Topics are those that the places of rows refer to.
	Topics []string `json:"topics"`
}

// LayoutOf returns the layout of an epoch's rows.
func (b Book) LayoutOf(g *Target, rows *Rows) Layout {
	l := Layout{Schema: g.Table.Schema, Table: g.Table.Name, Book: b.Schema, Mode: g.Mode, Columns: names(g.Columns), Key: g.Key, Topics: rows.topics}
	for _, c := range g.Columns {
		l.Types, l.Declared = append(l.Types, c.Type.OID), append(l.Declared, c.Declared)
	}
	return l
}

// Check refuses what no writer of ours can have meant.
func (l *Layout) Check() error {
	m := Merge{Schema: l.Schema, Table: l.Table, Book: l.Book, Stage: l.Table, Mode: l.Mode, Columns: l.Columns, Key: l.Key}
	if err := m.Check(); err != nil {
		return err
	}
	if len(l.Types) != len(l.Columns) || len(l.Declared) != len(l.Columns) {
		return fmt.Errorf("%d types (%d names) of %d columns", len(l.Types), len(l.Declared), len(l.Columns))
	}
	return nil
}

// Target finds the table, and refuses one whose columns have other types than the rows
// were encoded for.
func (l *Layout) Target(ctx context.Context, c *pgconn.Conn) (*Target, error) {
	t, err := LoadTable(ctx, c, l.Schema, l.Table)
	if err != nil {
		return nil, err
	}
	g, errs := NewTarget(t, l.Mode, l.Columns, l.Columns[:l.Key])
	if len(errs) > 0 {
		return nil, errs[0]
	}
	for i, col := range g.Columns {
		if col.Type.OID != l.Types[i] {
			return nil, stream.Errorf(stream.Environment, "wal.type_changed", "deliver rows", l.Schema+"."+l.Table+" column "+col.Name,
				"its type is %s; rows that wait in the log were encoded for %s", col.Declared, l.Declared[i]).
				WithFix("change the column back, start the job so that the rows are delivered, stop it, and change the column then")
		}
	}
	return g, nil
}

// Frames calls f with the rows of each chunk, without those that others replaced, one
// behind the other. What f is given is valid until it returns.
func (r *Rows) Frames(f func(rows int, data []byte) error) error {
	var live []byte
	return r.each(func(_ int, v *view) error {
		data, size := v.data, 0
		for i := range v.rows {
			size += len(v.frame(i))
		}
		if size < len(data) {
			live = slices.Grow(live[:0], size)
			for i := range v.rows {
				live = append(live, v.frame(i)...)
			}
			data = live
		}
		if len(v.rows) == 0 {
			return nil
		}
		return f(len(v.rows), data)
	})
}

// Logged returns an epoch whose chunks, n of them, lie in a log. load reads one; it may be
// called several times, and what it returns must hold until the next call.
func (l *Layout) Logged(n int, load func(i int) (rows int, data []byte, err error)) *Rows {
	r := &Rows{topics: l.Topics}
	for i := range n {
		r.chunks = append(r.chunks, &chunk{topics: &r.topics, load: func() (data []byte, rows int, err error) {
			if rows, data, err = load(i); err == nil {
				err = l.checkFrames(data, rows)
			}
			return data, rows, err
		}})
	}
	return r
}

// checkFrames refuses rows that are not whole: their fields are used without looking.
func (l *Layout) checkFrames(data []byte, rows int) error {
	n := 0
	for len(data) > 0 {
		f, err := l.checkFrame(data)
		if err != nil {
			return l.damaged(n, err)
		}
		data = data[len(f):]
		n++
	}
	if n != rows {
		return l.damaged(n, fmt.Errorf("there are %d rows instead of %d", n, rows))
	}
	return nil
}

func (l *Layout) damaged(row int, err error) error {
	return stream.Errorf(stream.RestoreRefused, "wal.row", "read segment", fmt.Sprintf("row %d", row), "%w", err)
}

func (l *Layout) checkFrame(data []byte) (frame, error) {
	if len(data) < frameHead || uint64(be.Uint32(data))+4 > uint64(len(data)) || be.Uint32(data)+4 < frameHead {
		return nil, errors.New("it is cut off")
	}
	f := frameAt(data, 0)
	switch {
	case f[4]&^flags != 0:
		return nil, fmt.Errorf("its flags are %#x", f[4])
	case int(be.Uint16(f[5:])) >= len(l.Topics):
		return nil, fmt.Errorf("its topic is number %d of %d", be.Uint16(f[5:]), len(l.Topics))
	case uint64(be.Uint32(f[19:])) > uint64(len(f)-frameHead):
		return nil, errors.New("its fields are cut off")
	case f.hasRecord() && parseRecord(f.record(), new(stream.Record)) != nil:
		return nil, errors.New("its record is cut off")
	case !f.hasRecord() && len(f.record()) > 0:
		return nil, errors.New("there is something behind its fields")
	}
	return f, checkTuple(f.tuple(), len(l.Columns))
}

func checkTuple(t []byte, columns int) error {
	if len(t) < 2 || int(be.Uint16(t)) != columns {
		return fmt.Errorf("it has not the %d fields of the columns", columns)
	}
	t = t[2:]
	for range columns {
		if len(t) < 4 {
			return errors.New("a field is cut off")
		}
		n := be.Uint32(t)
		t = t[4:]
		if n == nullField {
			continue
		}
		if uint64(n) > uint64(len(t)) {
			return errors.New("a field is cut off")
		}
		t = t[n:]
	}
	if len(t) > 0 {
		return errors.New("there is something behind its last field")
	}
	return nil
}

// RejectRows puts rows that the target refuses into the reject table, in the open
// transaction, with everything they hold.
func (b Book) RejectRows(ctx context.Context, c *pgconn.Conn, g *Target, subtask int, id stream.CheckpointID, rows *Rows, bad Bad) error {
	seq := 0
	return rows.each(func(i int, v *view) error {
		for at := range v.rows {
			if cause := bad[i][at]; cause != nil {
				if err := b.rejectRow(ctx, c, g, subtask, id, seq+at, v.frame(at), v.topics, cause); err != nil {
					return err
				}
			}
		}
		seq += len(v.rows)
		return nil
	})
}

// The types of the parameters of rejectRow.
const (
	oidInt4, oidInt8, oidText, oidUUID = 23, 20, 25, 2950
)

func (b Book) rejectRow(ctx context.Context, c *pgconn.Conn, g *Target, subtask int, id stream.CheckpointID, seq int, f frame, topics []string, cause error) error {
	row := pgconn.Row(cause)
	values := [][]byte{[]byte(b.Job), []byte(string(b.Sink)), b.Lineage[:], be.AppendUint32(nil, uint32(subtask)), be.AppendUint64(nil, uint64(id)),
		be.AppendUint32(nil, uint32(seq)), f.source([]byte{}, topics), []byte(row.Code), []byte((&pgconn.RowError{Answer: row}).Error())}
	types := []uint32{oidText, oidText, oidUUID, oidInt4, oidInt8, oidInt4, oidText, oidText, oidText}
	fields := ""
	t := f.tuple()[2:]
	for i, col := range g.Columns {
		end := fieldsEnd(t, 1)
		var value []byte
		if be.Uint32(t) != nullField {
			value = t[4:end:end]
		}
		values, types, t = append(values, value), append(types, col.Type.OID), t[end:]
		if i > 0 {
			fields += ", "
		}
		fields += fmt.Sprintf("$%d AS %s", len(values), pgconn.Ident(col.Name))
	}
	sql := "INSERT INTO " + b.table("reject") + " (job, sink, lineage, subtask, checkpoint, seq, source, code, message, row) " +
		"SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, to_jsonb(s) FROM (SELECT " + fields + ") AS s"
	n, err := c.Binary(ctx, sql, values, types)
	if err == nil && n != 1 {
		err = fmt.Errorf("%d rows went to the reject table instead of one", n)
	}
	return b.explain(err, "note a rejected row")
}

// logRights are the least that the job's role needs to deliver from a log.
func (b Book) logRights(g *Target) []right {
	var out []right
	for _, r := range b.rights(g, false) {
		if r.table != b.table("staged") {
			out = append(out, r)
		}
	}
	return append(out, right{b.table("reject"), []string{"SELECT", "INSERT"}})
}

// CheckLogRights is CheckRights for a sink that delivers from a log.
func (b Book) CheckLogRights(ctx context.Context, c *pgconn.Conn, g *Target) error {
	return b.checkRights(ctx, c, b.logRights(g))
}

// LogSetup is Setup for a sink that delivers from a log: it needs no staging table.
func (b Book) LogSetup(g *Target, role string) []Statement {
	out := b.Tables()
	if role != "" {
		out = append(out, b.grants(g, role, b.logRights(g))...)
	}
	return out
}
