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

// parquetCells is a row of a Parquet file. Its bytes stay for as long as somebody holds
// them: they are cut off chunks that are never used again.
type parquetCells struct {
	cols   []Column
	codes  []code // of the types, for a quick switch
	values []parquet.Value
	chunk  []byte
	size   int
}

// code is a TypeKind as a number.
type code uint8

const (
	asBoolean code = iota
	asInt64
	asDouble
	asDecimal
	asString
	asJSON
	asTimestamp
	asDate
)

var codes = map[TypeKind]code{Boolean: asBoolean, Int64: asInt64, Double: asDouble, Decimal: asDecimal, String: asString, JSONText: asJSON,
	Timestamp: asTimestamp, Date: asDate}

func newParquetCells(cols []Column) *parquetCells {
	c := &parquetCells{cols: cols, values: make([]parquet.Value, len(cols))}
	for _, col := range cols {
		c.codes = append(c.codes, codes[col.Type.Kind])
	}
	return c
}

func (c *parquetCells) reset() { c.size = 0 }

func (c *parquetCells) add(i int, v expr.Value) error {
	if v.IsNull() {
		c.values[i] = parquet.NullValue()
		c.size++
		return nil
	}
	p, err := c.convert(i, v)
	if err != nil {
		return err
	}
	p.SetDefinitionLevel(1)
	c.size += 8
	c.values[i] = p
	return nil
}

// convert makes a value of a column's type, or says why it does not fit.
func (c *parquetCells) convert(i int, v expr.Value) (p parquet.Value, err error) {
	switch c.codes[i] {
	case asBoolean:
		if v.Kind() == stream.Bool {
			return parquet.BooleanValue(v.Bool()), nil
		}
	case asInt64:
		return whole64(v, c.cols[i].Type)
	case asDouble:
		return c.double(v)
	case asDecimal:
		return decimal64(v, c.cols[i].Type)
	case asString:
		if s, ok := v.Text(); ok {
			return c.keep(s), nil
		}
	case asJSON:
		return c.keep(string(v.AppendJSON(nil))), nil
	case asTimestamp:
		return instant(v)
	case asDate:
		return day(v)
	}
	return p, misfit(v, c.cols[i].Type)
}

func misfit(v expr.Value, t Type) error { return fmt.Errorf("a %s is no %s", v.Kind(), t) }

// chunkSize is how much memory is asked for at once.
const chunkSize = 64 << 10

// keep copies text to where it stays.
func (c *parquetCells) keep(s string) parquet.Value {
	if len(c.chunk) < len(s) {
		c.chunk = make([]byte, max(chunkSize, len(s)))
	}
	b := c.chunk[:len(s):len(s)]
	c.chunk = c.chunk[len(s):]
	copy(b, s)
	c.size += len(s)
	return parquet.ByteArrayValue(b)
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
