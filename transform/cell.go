package transform

import (
	"encoding/binary"
	"strconv"

	"etl/expr"
	"etl/expr/decimal"
	"etl/stream"
)

// The state of an aggregate, version 1, in one entry per key:
//
//	byte   0       version, 1
//	then, for each aggregation in order, a cell of 11 bytes:
//	       0       tag: 0 nothing yet, 1 number, 2 long number, 3 text
//	       1-2     scale of a number: it is num / 10^scale
//	       3-10    num: coefficient; for tags 2 and 3 the length of its text
//	then the texts of tags 2 and 3, in order
//
// Integers are little-endian. Without long numbers and text, which is the rule, an
// entry never changes its size.
const (
	stateVersion = 1
	cellSize     = 11
)

const (
	noValue byte = iota
	shortNumber
	longNumber
	textValue
)

// cell is the running value of one aggregation.
type cell struct {
	tag   byte
	scale uint16
	num   int64
	text  []byte
}

// decodeCells reads an entry into cells, whose texts lie in it.
func decodeCells(entry []byte, cells []cell) bool {
	if len(entry) < 1+cellSize*len(cells) || entry[0] != stateVersion {
		return false
	}
	text := entry[1+cellSize*len(cells):]
	for i := range cells {
		e := entry[1+cellSize*i:]
		c := cell{tag: e[0], scale: binary.LittleEndian.Uint16(e[1:]), num: int64(binary.LittleEndian.Uint64(e[3:]))}
		if c.tag > shortNumber {
			if c.tag > textValue || c.num < 0 || c.num > int64(len(text)) {
				return false
			}
			c.text, text = text[:c.num:c.num], text[c.num:]
		}
		cells[i] = c
	}
	return len(text) == 0
}

// appendCells appends the entry of cells.
func appendCells(dst []byte, cells []cell) []byte {
	dst = append(dst, stateVersion)
	for i := range cells {
		c := &cells[i]
		if c.tag > shortNumber {
			c.num = int64(len(c.text))
		}
		dst = append(dst, c.tag)
		dst = binary.LittleEndian.AppendUint16(dst, c.scale)
		dst = binary.LittleEndian.AppendUint64(dst, uint64(c.num))
	}
	for i := range cells {
		if cells[i].tag > shortNumber {
			dst = append(dst, cells[i].text...)
		}
	}
	return dst
}

// number returns the value of a number, 0 for nothing yet.
func (c *cell) number() decimal.Number {
	switch c.tag {
	case shortNumber:
		return decimal.Make(c.num, -int32(c.scale))
	case longNumber:
		n, _ := decimal.Parse(c.text) // what setNumber wrote
		return n
	}
	return decimal.Int(0)
}

func (c *cell) setNumber(n decimal.Number) {
	coef, exp, big := n.Parts()
	if big != nil {
		*c = cell{tag: longNumber, text: n.Append(nil)}
		return
	}
	*c = cell{tag: shortNumber, scale: uint16(-exp), num: coef}
}

// value returns the cell as a value, null for nothing yet. It lies in the cell.
func (c *cell) value() expr.Value {
	switch c.tag {
	case noValue:
		return expr.NullValue()
	case textValue:
		return expr.TextValue(c.text)
	}
	return expr.NumberValue(c.number())
}

// set stores a number or string.
func (c *cell) set(v expr.Value) bool {
	if n, ok := v.Number(); ok {
		c.setNumber(n)
		return true
	}
	s, ok := v.Text()
	if ok {
		*c = cell{tag: textValue, text: []byte(s)}
	}
	return ok
}

// countSize is the size of the state of CountText: a little-endian int64.
const countSize = 8

func addCount(b []byte) {
	binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)+1)
}

func appendCount(dst, state []byte) []byte {
	return strconv.AppendUint(dst, binary.LittleEndian.Uint64(state), 10)
}

// kindOf names what a cell holds, for messages.
func (c *cell) kindOf() stream.Kind {
	if c.tag == textValue {
		return stream.String
	}
	return stream.Decimal
}
