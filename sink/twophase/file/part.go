package file

import (
	"hash/crc32"
	"io"
	"time"

	"etl/stream"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// bufferSize is how much of a file is gathered before it is written.
const bufferSize = 64 << 10

// output is a file on its way to the disk: what it has taken is counted and summed.
type output struct {
	f    io.Writer
	buf  []byte
	size int64 // of everything taken
	sum  uint32
	bare bool // before a compressor: nobody asks for the sum
}

// Write takes p. What goes to the file goes in whole buffers: a write that ends within a
// page makes the kernel take up that page twice.
func (o *output) Write(p []byte) (int, error) {
	n := len(p)
	o.size += int64(n)
	for len(p) > 0 {
		if whole := len(p) / bufferSize * bufferSize; len(o.buf) == 0 && whole > 0 {
			if err := o.put(p[:whole]); err != nil {
				return 0, err
			}
			p = p[whole:]
			continue
		}
		k := copy(o.buf[len(o.buf):bufferSize], p)
		o.buf, p = o.buf[:len(o.buf)+k], p[k:]
		if len(o.buf) == bufferSize {
			if err := o.flush(); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

// writeLine writes a line and its end.
func (o *output) writeLine(p []byte) error {
	if len(o.buf)+len(p)+1 < bufferSize {
		o.buf = append(append(o.buf, p...), '\n')
		o.size += int64(len(p)) + 1
		return nil
	}
	if _, err := o.Write(p); err != nil {
		return err
	}
	_, err := o.Write(lineEnd)
	return err
}

var lineEnd = []byte("\n")

func (o *output) put(p []byte) error {
	if !o.bare {
		o.sum = crc32.Update(o.sum, castagnoli, p)
	}
	_, err := o.f.Write(p)
	return err
}

func (o *output) flush() error {
	if len(o.buf) == 0 {
		return nil
	}
	err := o.put(o.buf)
	o.buf = o.buf[:0]
	return err
}

// openPart is a part file that takes rows.
type openPart struct {
	part
	place string // of the partition, "" or with a slash at its end
	file  stream.File
	out   *output
	body  body
	held  int64 // about how much of it lies in memory
	begun time.Time
	seq   int   // within the epoch
	used  int64 // when it took its last row, in rows of the epoch
}

// bytes is about how large the file is.
func (p *openPart) bytes() int64 { return p.out.size + p.held }

// write adds a row.
func (p *openPart) write(r *Row) error {
	held, err := p.body.write(r)
	p.held = held
	p.Rows++
	return err
}

// end completes the file; it is not synced.
func (p *openPart) end() error {
	if err := p.body.close(); err != nil {
		return err
	}
	if err := p.out.flush(); err != nil {
		return err
	}
	p.Size, p.Sum = p.out.size, p.out.sum
	p.body, p.out, p.held = nil, nil, 0
	return nil
}

// sync makes the file durable and closes it.
func (p *openPart) sync() error {
	err := p.file.Sync()
	if cerr := p.file.Close(); err == nil {
		err = cerr
	}
	return err
}
