package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"time"

	"etl/expr"
	"etl/expr/decimal"
	"etl/expr/jsondoc"
	"etl/stream"
)

// FileSink is what a sink that writes part files has beyond Sink, whose connection and
// topic are not used then.
type FileSink struct {
	// Path is the directory, Job and UID the names that its files carry.
	Path, Job, UID string
	// Format is json, csv or parquet.
	Format string
	// Columns are those of csv and parquet.
	Columns []FileColumn
	// PartitionBy are the directories name=value, one inside the other.
	PartitionBy []Field
}

// FileColumn is a column: its expression, and in parquet its type.
type FileColumn struct{ Name, Value, Type string }

// partitionHeader carries the directory of a row, so that it is compared, too.
const partitionHeader = "partition"

// fileRows computes what files have to hold, in a form of its own: a JSON document for
// each row, whatever the format.
type fileRows struct {
	*node
	spec    *FileSink
	place   []*expr.Program
	cells   []fileCell
	buf     []byte
	dir     []byte // ./name=value/
	headers [1]stream.Header
}

// fileCell is a column.
type fileCell struct {
	FileColumn
	prog  *expr.Program
	scale int
}

var decimalType = regexp.MustCompile(`^decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)$`)

// compileFile compiles what a file sink has beyond key and value.
func (s *sinkPlan) compileFile(env expr.Env) error {
	f := &fileRows{node: s.node, spec: s.spec.File}
	s.rows = f
	for _, p := range f.spec.PartitionBy {
		prog, err := compileIn(s.name, "partition_by."+p.Name, p.Value, env)
		if err != nil {
			return err
		}
		f.place = append(f.place, prog)
	}
	var fields []Field
	for _, c := range f.spec.Columns {
		fields = append(fields, Field{Name: c.Name, Value: c.Value})
	}
	if len(fields) == 0 {
		return nil
	}
	if err := s.mapped(fields, env); err != nil {
		return err
	}
	for i, c := range f.spec.Columns {
		cell := fileCell{FileColumn: c, prog: s.programs[i]}
		if m := decimalType.FindStringSubmatch(c.Type); m != nil {
			cell.Type = "decimal"
			cell.scale, _ = strconv.Atoi(m[2])
		}
		f.cells = append(f.cells, cell)
	}
	return nil
}

// row returns what the file holds of a record.
func (f *fileRows) row(s *sinkPlan, rec *stream.Record) (value []byte, headers []stream.Header, err error) {
	if err := f.directory(rec); err != nil {
		return nil, nil, err
	}
	switch {
	case len(f.cells) > 0:
		err = f.columns(rec)
	case s.fields != nil:
		f.buf, err = s.ev.AppendFields(f.buf[:0], s.fields, rec)
	case s.value != nil:
		f.buf, err = s.ev.AppendJSON(f.buf[:0], s.value, rec)
	case rec.Value == nil:
		f.buf = append(f.buf[:0], "null"...)
	default:
		f.buf = append(f.buf[:0], rec.Value...)
	}
	if err == nil && bytes.IndexByte(f.buf, '\n') >= 0 {
		var b bytes.Buffer
		err = json.Compact(&b, f.buf)
		f.buf = b.Bytes()
	}
	return f.buf, f.headers[:], err
}

// directory sets dir to where the row belongs.
func (f *fileRows) directory(rec *stream.Record) error {
	f.dir = append(f.dir[:0], "./"...)
	for i, p := range f.place {
		v, err := f.ev.Value(p, rec)
		if err != nil {
			return err
		}
		text := "__HIVE_DEFAULT_PARTITION__"
		switch {
		case v.Kind() == stream.List || v.Kind() == stream.Object:
			return errors.New("a list or object names no directory")
		case !v.IsNull():
			if text = percent(string(v.AppendText(nil)), "-_."); string(v.AppendText(nil)) == "__HIVE_DEFAULT_PARTITION__" {
				return errors.New("the text stands for null")
			}
		}
		name := percent(f.spec.PartitionBy[i].Name, "-_.") + "=" + text
		if len(name) > 255 {
			return errors.New("the directory's name is too long")
		}
		f.dir = append(append(f.dir, name...), '/')
	}
	f.headers[0] = stream.Header{Key: partitionHeader, Value: f.dir}
	return nil
}

var letter = regexp.MustCompile(`^[A-Za-z0-9]$`)

// percent writes every byte but letters, digits and plain as %XX.
func percent(s, plain string) (out string) {
	for i := range len(s) {
		c := s[i : i+1]
		if !letter.MatchString(c) && !bytes.Contains([]byte(plain), []byte(c)) {
			c = fmt.Sprintf("%%%02X", s[i])
		}
		out += c
	}
	return out
}

// columns writes the row as an object.
func (f *fileRows) columns(rec *stream.Record) error {
	f.buf = append(f.buf[:0], '{')
	for i := range f.cells {
		c := &f.cells[i]
		v, err := f.ev.Value(c.prog, rec)
		if err != nil {
			return err
		}
		f.buf = f.head(f.buf, i)
		if v.IsNull() {
			f.buf = append(f.buf, "null"...)
			continue
		}
		if f.spec.Format == "csv" {
			f.buf = c.csv(f.buf, v.AppendText(nil))
			continue
		}
		if f.buf, err = c.typed(f.buf, v); err != nil {
			return err
		}
	}
	f.buf = append(f.buf, '}')
	return nil
}

func (f *fileRows) head(dst []byte, i int) []byte {
	if i > 0 {
		dst = append(dst, ',')
	}
	return append(jsondoc.AppendString(dst, f.cells[i].Name), ':')
}

// csv writes the text of a field: as it is where the expression gives no text, so that
// keys of aggregates look as they do elsewhere.
func (c *fileCell) csv(dst, text []byte) []byte {
	switch c.prog.Type().Kind {
	case stream.Int, stream.Decimal, stream.Bool:
		return append(dst, text...)
	}
	return jsondoc.AppendString(dst, text)
}

// typed writes a value as a Parquet file gives it back.
func (c *fileCell) typed(dst []byte, v expr.Value) ([]byte, error) {
	text, isText := v.Text()
	n, isNumber := v.Number()
	switch c.Type {
	case "boolean":
		if v.Kind() == stream.Bool {
			return strconv.AppendBool(dst, v.Bool()), nil
		}
	case "int64":
		if i, ok := n.Int64(); isNumber && ok {
			return strconv.AppendInt(dst, i, 10), nil
		}
	case "double":
		if x, err := strconv.ParseFloat(n.String(), 64); isNumber && err == nil && !math.IsInf(x, 0) {
			return strconv.AppendFloat(dst, x, 'g', -1, 64), nil
		}
	case "decimal":
		if isNumber {
			return c.scaled(dst, n)
		}
	case "string":
		if isText {
			return jsondoc.AppendString(dst, text), nil
		}
	case "json":
		return v.AppendJSON(dst), nil
	case "timestamp":
		if isText {
			at, err := time.Parse(time.RFC3339Nano, text)
			return strconv.AppendInt(dst, at.UnixMicro(), 10), err
		}
		if ms, ok := n.Int64(); isNumber && ok {
			return strconv.AppendInt(dst, ms*1000, 10), nil
		}
	case "date":
		_, err := time.Parse(time.DateOnly, text)
		return jsondoc.AppendString(dst, text), err
	}
	return dst, errMisfit
}

// scaled writes a number with exactly the digits of its column behind the point.
func (c *fileCell) scaled(dst []byte, n decimal.Number) ([]byte, error) {
	unit := int64(1)
	for range c.scale {
		unit *= 10
	}
	m, err := decimal.Mul(n, decimal.Int(unit))
	if err != nil {
		return dst, errMisfit
	}
	i, ok := m.Int64()
	if !ok {
		return dst, errMisfit
	}
	return decimal.Make(i, int32(-c.scale)).Append(dst), nil
}

// showsKeys reports whether the columns that hold the key of an aggregate give it back
// as it was.
func (f *fileRows) showsKeys(names []string) bool {
	for _, c := range f.cells {
		for _, name := range names {
			if c.Name == name && f.spec.Format == "parquet" && c.Type != "string" && c.Type != "int64" && c.Type != "boolean" {
				return false
			}
			if c.Name == name && f.spec.Format == "csv" && c.prog.Type().Kind == stream.Any {
				return false
			}
		}
	}
	return true
}
