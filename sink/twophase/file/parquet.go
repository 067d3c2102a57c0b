package file

import (
	"io"
	"reflect"

	"github.com/parquet-go/parquet-go"
)

// rowsAtOnce is how many rows go to the Parquet library in one call.
const rowsAtOnce = 256

// rowGroup is about how many bytes of rows a row group holds.
const rowGroup = 16 << 20

// parquetBody writes a Parquet file. It gathers rows, for the library takes many at once
// for little more than one.
type parquetBody struct {
	w       *parquet.GenericWriter[any]
	rows    []parquet.Row
	values  []parquet.Value // of rows
	mem     []byte          // their bytes
	size    int64           // of the rows in the open row group
	columns int
}

func newParquetBody(c *Config, out io.Writer) (*parquetBody, error) {
	n := len(c.Columns)
	return &parquetBody{columns: n, rows: make([]parquet.Row, 0, rowsAtOnce), values: make([]parquet.Value, 0, rowsAtOnce*n),
		w: parquet.NewGenericWriter[any](out, parquetSchema(c.Columns), pageCodec(c.Compression),
			parquet.WriteBufferSize(0), parquet.CreatedBy("etl", "1", ""))}, nil
}

func pageCodec(c Compression) parquet.WriterOption {
	switch c {
	case Gzip:
		return parquet.Compression(&parquet.Gzip)
	case Zstd:
		return parquet.Compression(&parquet.Zstd)
	}
	return parquet.Compression(&parquet.Uncompressed)
}

func (p *parquetBody) write(r *Row) error {
	from := len(p.values)
	for _, v := range r.cells.(*parquetCells).values {
		if k := v.Kind(); k == parquet.ByteArray && !v.IsNull() {
			v = p.keep(v)
		}
		p.values = append(p.values, v)
	}
	p.rows = append(p.rows, p.values[from:len(p.values):len(p.values)])
	p.size += int64(r.cells.(*parquetCells).size)
	if len(p.rows) < rowsAtOnce {
		return nil
	}
	if err := p.hand(); err != nil {
		return err
	}
	if p.size >= rowGroup {
		return p.flush()
	}
	return nil
}

// keep copies the bytes of a value: the library reads them when the rows are handed on.
func (p *parquetBody) keep(v parquet.Value) parquet.Value {
	b := v.ByteArray()
	if cap(p.mem)-len(p.mem) < len(b) {
		// What was kept before stays where it is.
		p.mem = make([]byte, 0, max(64<<10, 2*len(b)))
	}
	at := len(p.mem)
	p.mem = append(p.mem, b...)
	return parquet.ByteArrayValue(p.mem[at:len(p.mem):len(p.mem)]).Level(v.RepetitionLevel(), v.DefinitionLevel(), v.Column())
}

// hand gives the gathered rows to the library.
func (p *parquetBody) hand() error {
	if len(p.rows) == 0 {
		return nil
	}
	_, err := p.w.WriteRows(p.rows)
	p.rows, p.values, p.mem = p.rows[:0], p.values[:0], p.mem[:0]
	return err
}

func (p *parquetBody) held() int64 { return p.size }

// flush ends the row group.
func (p *parquetBody) flush() error {
	if err := p.hand(); err != nil {
		return err
	}
	p.size = 0
	return p.w.Flush()
}

func (p *parquetBody) close() error {
	if err := p.hand(); err != nil {
		return err
	}
	return p.w.Close()
}

// parquetSchema makes all columns optional, in their order.
func parquetSchema(cols []Column) *parquet.Schema {
	group := parquet.Group{}
	for _, c := range cols {
		group[c.Name] = parquet.Optional(c.Type.node())
	}
	g := ordered{Group: group}
	for _, c := range cols {
		g.fields = append(g.fields, field{group[c.Name], c.Name})
	}
	return parquet.NewSchema("row", g)
}

func (t Type) node() parquet.Node {
	switch t.Kind {
	case Boolean:
		return parquet.Leaf(parquet.BooleanType)
	case Int64:
		return parquet.Leaf(parquet.Int64Type)
	case Double:
		return parquet.Leaf(parquet.DoubleType)
	case Decimal:
		return parquet.Decimal(t.Scale, t.Precision, parquet.Int64Type)
	case JSONText:
		return parquet.JSON()
	case Timestamp:
		return parquet.Timestamp(parquet.Microsecond)
	case Date:
		return parquet.Date()
	}
	return parquet.String()
}

// ordered is a group whose fields keep their order; the library's own sorts them.
type ordered struct {
	parquet.Group
	fields []parquet.Field
}

func (o ordered) Fields() []parquet.Field { return o.fields }

// field is a column of the group.
type field struct {
	parquet.Node
	name string
}

func (f field) Name() string { return f.name }

func (f field) Value(base reflect.Value) reflect.Value {
	return base.MapIndex(reflect.ValueOf(f.name))
}
