package file

import (
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// body writes rows in a format. What it has taken may lie in memory until close.
type body interface {
	// write adds the row, and returns about how many bytes lie in memory and not in the
	// file.
	write(r *Row) (held int64, err error)
	// flush gives memory back, where the format can.
	flush() error
	// close writes what is left, footers included. It does not close the file.
	close() error
}

// newBody begins a file.
func (c *Config) newBody(out *output) (body, error) {
	if c.Format == Parquet {
		return newParquetBody(c, out)
	}
	t := &textBody{out: out, csv: c.Format == CSV}
	var err error
	switch c.Compression {
	case Gzip:
		t.packed = gzip.NewWriter(out)
	case Zstd:
		t.packed, err = zstd.NewWriter(out, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
	}
	if err == nil && t.packed != nil {
		t.out = &output{f: t.packed, buf: make([]byte, 0, bufferSize), bare: true}
	}
	if err == nil && t.csv {
		_, err = t.out.Write(csvHeader(c.Columns))
	}
	return t, err
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
	out    *output // the file, or the buffer before packed
	packed io.WriteCloser
	csv    bool
}

func (t *textBody) write(r *Row) (held int64, err error) {
	line := r.line
	if t.csv {
		line = r.cells.(*csvCells).line
	}
	return 0, t.out.writeLine(line)
}

func (t *textBody) flush() error { return nil }

func (t *textBody) close() error {
	if t.packed == nil {
		return nil
	}
	if err := t.out.flush(); err != nil {
		return err
	}
	return t.packed.Close()
}
