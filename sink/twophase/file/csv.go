package file

import (
	"bytes"

	"etl/expr"
	"etl/stream"
)

// csvCells is a line of a CSV file without its end. Null is nothing between the commas,
// the empty text is "", lists and objects are JSON. Lines end with \n alone.
type csvCells struct {
	line []byte
	text []byte
}

func (c *csvCells) reset() { c.line = c.line[:0] }

func (c *csvCells) add(i int, v expr.Value) error {
	if i > 0 {
		c.line = append(c.line, ',')
	}
	if v.IsNull() {
		return nil
	}
	c.text = v.AppendText(c.text[:0])
	c.line = appendCSV(c.line, c.text, v.Kind() == stream.String)
	return nil
}

// appendCSV writes a field, in quotes where it needs them.
func appendCSV(dst, text []byte, quoteEmpty bool) []byte {
	if len(text) > 0 && !bytes.ContainsAny(text, ",\"\r\n") || len(text) == 0 && !quoteEmpty {
		return append(dst, text...)
	}
	dst = append(dst, '"')
	for _, b := range text {
		if b == '"' {
			dst = append(dst, '"')
		}
		dst = append(dst, b)
	}
	return append(dst, '"')
}

func csvHeader(cols []Column) (line []byte) {
	for i, c := range cols {
		if i > 0 {
			line = append(line, ',')
		}
		line = appendCSV(line, []byte(c.Name), true)
	}
	return append(line, '\n')
}
