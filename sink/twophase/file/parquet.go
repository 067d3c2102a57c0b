package file

import (
	"io"
	"reflect"

	"github.com/parquet-go/parquet-go"
)

// rowsAtOnce is how many rows go to the Parquet library in one call: enough to make the
// call cheap, and few enough for pages to keep their size.
const rowsAtOnce = 128

// rowGroup is about how many bytes of rows a row group holds.
const rowGroup = 16 << 20

// parquetBody writes a Parquet file, column by column.
type parquetBody struct {
	w    *parquet.GenericWriter[any]
	out  []*parquet.ColumnWriter
	cols [][]parquet.Value // gathered, rowsAtOnce at most
	rows int               // in cols
	size int64             // of the rows in the open row group
}

func newParquetBody(c *Config, out io.Writer) (*parquetBody, error) {
	w := parquet.NewGenericWriter[any](out, parquetSchema(c.Columns), pageCodec(c.Compression), parquet.WriteBufferSize(0), parquet.CreatedBy("etl", "1", ""))
	p := &parquetBody{w: w, out: w.ColumnWriters(), cols: make([][]parquet.Value, len(c.Columns))}
	for i := range p.cols {
		p.cols[i] = make([]parquet.Value, 0, rowsAtOnce)
	}
	return p, nil
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

// write adds a row. Its bytes stay where the cells have put them.
func (p *parquetBody) write(r *Row) (held int64, err error) {
	cells := r.cells.(*parquetCells)
	for i := range cells.values {
		p.cols[i] = append(p.cols[i], cells.values[i])
	}
	p.rows++
	p.size += int64(cells.size)
	if p.rows < rowsAtOnce {
		return p.size, nil
	}
	if err := p.hand(); err != nil {
		return p.size, err
	}
	if p.size >= rowGroup {
		return 0, p.flush()
	}
	return p.size, nil
}

// hand gives the gathered rows to the library.
func (p *parquetBody) hand() error {
	for i, values := range p.cols {
		if len(values) == 0 {
			continue
		}
		if _, err := p.out[i].WriteRowValues(values); err != nil {
			return err
		}
		clear(values)
		p.cols[i] = values[:0]
	}
	p.rows = 0
	return nil
}

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
