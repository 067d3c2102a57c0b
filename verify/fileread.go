package verify

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"etl/expr/decimal"
	"etl/expr/jsondoc"
)

// unpacked returns the text of a file.
func unpacked(h io.Reader, name string) (io.Reader, func(), error) {
	r := bufio.NewReaderSize(h, 1<<16)
	switch {
	case strings.HasSuffix(name, ".gz"):
		z, err := gzip.NewReader(r)
		return z, func() {}, err
	case strings.HasSuffix(name, ".zst"):
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, nil, err
		}
		return z, z.Close, nil
	}
	return r, func() {}, nil
}

var errCut = errors.New("the last line has no end")

// readLines reads a document a line.
func readLines(r io.Reader, emit func([]byte)) error {
	b := bufio.NewReaderSize(r, 1<<16)
	for {
		line, err := b.ReadBytes('\n')
		switch {
		case err == io.EOF && len(line) == 0:
			return nil
		case err == io.EOF:
			return errCut
		case err != nil:
			return err
		}
		emit(line[:len(line)-1])
	}
}

// readCSV reads a header and rows, null told from the empty text.
func (f *fileRows) readCSV(r io.Reader, emit func([]byte)) error {
	b := bufio.NewReaderSize(r, 1<<16)
	header, err := csvLine(b)
	if err != nil {
		return err
	}
	if len(header) != len(f.cells) {
		return fmt.Errorf("it has %d columns, and the pipeline %d", len(header), len(f.cells))
	}
	for i, h := range header {
		if h.text != f.cells[i].Name {
			return fmt.Errorf("its column %d is %q, and the pipeline's %q", i+1, h.text, f.cells[i].Name)
		}
	}
	var doc []byte
	for {
		fields, err := csvLine(b)
		if err == io.EOF {
			return nil
		}
		if err != nil || len(fields) != len(f.cells) {
			return fmt.Errorf("a line has %d columns: %w", len(fields), errors.Join(err))
		}
		doc = append(doc[:0], '{')
		for i, x := range fields {
			doc = f.head(doc, i)
			if x.text == "" && !x.quoted {
				doc = append(doc, "null"...)
				continue
			}
			doc = f.cells[i].csv(doc, []byte(x.text))
		}
		emit(append(doc, '}'))
	}
}

// csvField is a field, and whether it stood in quotes.
type csvField struct {
	text   string
	quoted bool
}

// csvLine reads one line of RFC 4180; io.EOF when there is none.
func csvLine(b *bufio.Reader) (out []csvField, err error) {
	var x csvField
	var text bytes.Buffer
	inside, any := false, false
	for {
		c, err := b.ReadByte()
		switch {
		case err == io.EOF && !any:
			return nil, io.EOF
		case err == io.EOF:
			return out, errCut
		case err != nil:
			return out, err
		}
		any = true
		switch {
		case inside && c == '"':
			next, perr := b.Peek(1)
			if perr == nil && next[0] == '"' {
				_, _ = b.Discard(1)
				text.WriteByte('"')
				continue
			}
			inside = false
		case inside:
			text.WriteByte(c)
		case c == '"':
			inside, x.quoted = true, true
		case c == ',' || c == '\n':
			x.text = text.String()
			out = append(out, x)
			x = csvField{}
			text.Reset()
			if c == '\n' {
				return out, nil
			}
		default:
			text.WriteByte(c)
		}
	}
}

// readParquet reads rows by what the file itself says of its columns.
func readParquet(h *os.File, emit func([]byte)) error {
	info, err := h.Stat()
	if err != nil {
		return err
	}
	f, err := parquet.OpenFile(h, info.Size())
	if err != nil {
		return err
	}
	var cols []parquetColumn
	for _, field := range f.Schema().Fields() {
		c, err := newParquetColumn(field)
		if err != nil {
			return err
		}
		cols = append(cols, c)
	}
	var doc []byte
	for _, g := range f.RowGroups() {
		rows := g.Rows()
		for buf := make([]parquet.Row, 128); ; {
			n, err := rows.ReadRows(buf)
			for _, row := range buf[:n] {
				doc = append(doc[:0], '{')
				for i, v := range row {
					doc = cols[i].write(doc, v, i)
				}
				emit(append(doc, '}'))
			}
			if err == io.EOF || n == 0 && err == nil {
				break
			}
			if err != nil {
				return errors.Join(err, rows.Close())
			}
		}
		if err := rows.Close(); err != nil {
			return err
		}
	}
	return nil
}

// parquetColumn says how the values of a column are read.
type parquetColumn struct {
	name, logical string
	scale         int32
}

func newParquetColumn(f parquet.Field) (c parquetColumn, err error) {
	c.name = f.Name()
	if !f.Leaf() || f.Repeated() {
		return c, fmt.Errorf("column %s is nested", c.name)
	}
	l := f.Type().LogicalType()
	if l == nil {
		return c, nil
	}
	switch v := l.Value.(type) {
	case *format.JsonType:
		c.logical = "json"
	case *format.DateType:
		c.logical = "date"
	case *format.DecimalType:
		c.logical, c.scale = "decimal", v.Scale
	}
	return c, nil
}

func (c *parquetColumn) write(dst []byte, v parquet.Value, i int) []byte {
	if i > 0 {
		dst = append(dst, ',')
	}
	dst = append(jsondoc.AppendString(dst, c.name), ':')
	if v.IsNull() {
		return append(dst, "null"...)
	}
	switch {
	case c.logical == "decimal":
		return decimal.Make(v.Int64(), -c.scale).Append(dst)
	case c.logical == "json":
		return append(dst, v.ByteArray()...)
	case c.logical == "date":
		return jsondoc.AppendString(dst, time.Unix(int64(v.Int32())*86400, 0).UTC().Format(time.DateOnly))
	}
	switch v.Kind() {
	case parquet.Boolean:
		return strconv.AppendBool(dst, v.Boolean())
	case parquet.Int64:
		return strconv.AppendInt(dst, v.Int64(), 10)
	case parquet.Double:
		return strconv.AppendFloat(dst, v.Double(), 'g', -1, 64)
	case parquet.ByteArray:
		return jsondoc.AppendString(dst, v.ByteArray())
	}
	return append(dst, v.String()...)
}
