package file

import (
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// body writes rows in a format. What it has taken may lie in memory until close.
type body interface {
	// write adds the row.
	write(r *Row) error
	// held returns about how many bytes lie in memory and not in the file.
	held() int64
	// flush gives memory back, where the format can.
	flush() error
	// close writes what is left, footers included. It does not close the file.
	close() error
}

// newBody begins a file.
func (c *Config) newBody(out io.Writer) (body, error) {
	if c.Format == Parquet {
		return newParquetBody(c, out)
	}
	w, end, err := c.compressed(out)
	if err != nil {
		return nil, err
	}
	t := &textBody{w: w, end: end}
	if c.Format == CSV {
		t.csv = true
		_, err = w.Write(csvHeader(c.Columns))
	}
	return t, err
}

// compressed wraps out; end completes what was written.
func (c *Config) compressed(out io.Writer) (w io.Writer, end func() error, err error) {
	switch c.Compression {
	case Gzip:
		z := gzip.NewWriter(out)
		return z, z.Close, nil
	case Zstd:
		z, err := zstd.NewWriter(out, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
		if err != nil {
			return nil, nil, err
		}
		return z, z.Close, nil
	}
	return out, func() error { return nil }, nil
}

// newCells returns what takes the values of a row; nil for json.
func (c *Config) newCells() cells {
	switch c.Format {
	case CSV:
		return &csvCells{}
	case Parquet:
		return newParquetCells(c.Columns)
	}
	return nil
}

// textBody writes a line for each row.
type textBody struct {
	w   io.Writer
	end func() error
	csv bool
}

func (t *textBody) write(r *Row) error {
	line := r.line
	if t.csv {
		line = r.cells.(*csvCells).line
	}
	if _, err := t.w.Write(line); err != nil {
		return err
	}
	_, err := t.w.Write(lineEnd)
	return err
}

var lineEnd = []byte("\n")

func (t *textBody) held() int64  { return 0 }
func (t *textBody) flush() error { return nil }
func (t *textBody) close() error { return t.end() }
