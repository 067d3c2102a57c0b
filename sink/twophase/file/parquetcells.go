package file

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/parquet-go/parquet-go"

	"etl/expr"
	"etl/expr/decimal"
	"etl/stream"
)

// parquetCells is a row of a Parquet file. Its bytes are good until the next row.
type parquetCells struct {
	cols   []Column
	values []parquet.Value
	text   []byte
	size   int
}

func newParquetCells(cols []Column) *parquetCells { return &parquetCells{cols: cols} }

func (c *parquetCells) reset() { c.values, c.text, c.size = c.values[:0], c.text[:0], 0 }

func (c *parquetCells) add(i int, v expr.Value) error {
	if v.IsNull() {
		c.values = append(c.values, parquet.NullValue().Level(0, 0, i))
		c.size++
		return nil
	}
	p, err := c.convert(c.cols[i].Type, v)
	if err != nil {
		return err
	}
	c.size += 8
	c.values = append(c.values, p.Level(0, 1, i))
	return nil
}

// convert makes a value of a column's type, or says why it does not fit.
func (c *parquetCells) convert(t Type, v expr.Value) (p parquet.Value, err error) {
	switch t.Kind {
	case Boolean:
		if v.Kind() == stream.Bool {
			return parquet.BooleanValue(v.Bool()), nil
		}
	case Int64:
		return whole64(v, t)
	case Double:
		return c.double(v)
	case Decimal:
		return decimal64(v, t)
	case String:
		if s, ok := v.Text(); ok {
			return c.keep(func(dst []byte) []byte { return append(dst, s...) }), nil
		}
	case JSONText:
		return c.keep(v.AppendJSON), nil
	case Timestamp:
		return instant(v)
	case Date:
		return day(v)
	}
	return p, misfit(v, t)
}

func misfit(v expr.Value, t Type) error { return fmt.Errorf("a %s is no %s", v.Kind(), t) }

func (c *parquetCells) keep(add func([]byte) []byte) parquet.Value {
	at := len(c.text)
	c.text = add(c.text)
	c.size += len(c.text) - at
	return parquet.ByteArrayValue(c.text[at:len(c.text):len(c.text)])
}

func whole64(v expr.Value, t Type) (parquet.Value, error) {
	n, ok := v.Number()
	if !ok {
		return parquet.Value{}, misfit(v, t)
	}
	i, ok := n.Int64()
	if !ok {
		return parquet.Value{}, errors.New("the number is not whole, or has more than 64 bits")
	}
	return parquet.Int64Value(i), nil
}

func (c *parquetCells) double(v expr.Value) (parquet.Value, error) {
	n, ok := v.Number()
	if !ok {
		return parquet.Value{}, misfit(v, Type{Kind: Double})
	}
	f, err := strconv.ParseFloat(n.String(), 64)
	if err != nil || math.IsInf(f, 0) {
		return parquet.Value{}, errors.New("the number is beyond the range of a double")
	}
	return parquet.DoubleValue(f), nil
}

// powers are 10^0 to 10^18.
var powers = func() (p [maxPrecision + 1]int64) {
	p[0] = 1
	for i := 1; i < len(p); i++ {
		p[i] = 10 * p[i-1]
	}
	return p
}()

func decimal64(v expr.Value, t Type) (parquet.Value, error) {
	n, ok := v.Number()
	if !ok {
		return parquet.Value{}, misfit(v, t)
	}
	scaled, err := decimal.Mul(n, decimal.Int(powers[t.Scale]))
	if err == nil {
		if i, ok := scaled.Int64(); ok && i < powers[t.Precision] && i > -powers[t.Precision] {
			return parquet.Int64Value(i), nil
		}
	}
	return parquet.Value{}, fmt.Errorf("the number has more digits than a %s", t)
}

// instant takes RFC 3339 text with its zone, or milliseconds since 1970.
func instant(v expr.Value) (parquet.Value, error) {
	if s, ok := v.Text(); ok {
		at, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			return parquet.Value{}, errors.New("the text is no time as RFC 3339 has it, zone included")
		}
		if at.Nanosecond()%1000 != 0 {
			return parquet.Value{}, errors.New("the time is finer than a microsecond")
		}
		return parquet.Int64Value(at.UnixMicro()), nil
	}
	n, ok := v.Number()
	if !ok {
		return parquet.Value{}, misfit(v, Type{Kind: Timestamp})
	}
	ms, ok := n.Int64()
	if !ok || ms > math.MaxInt64/1000 || ms < math.MinInt64/1000 {
		return parquet.Value{}, errors.New("the number is no count of milliseconds")
	}
	return parquet.Int64Value(ms * 1000), nil
}

// day takes text such as 2026-11-29.
func day(v expr.Value) (parquet.Value, error) {
	s, ok := v.Text()
	if !ok {
		return parquet.Value{}, misfit(v, Type{Kind: Date})
	}
	at, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return parquet.Value{}, errors.New("the text is no date such as 2026-11-29")
	}
	return parquet.Int32Value(int32(at.Unix() / 86400)), nil
}
