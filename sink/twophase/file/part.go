package file

import (
	"hash/crc32"
	"time"

	"etl/stream"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// bufferSize is how much of a file is gathered before it is written.
const bufferSize = 64 << 10

// output is a file on its way to the disk: what it has taken is counted and summed.
type output struct {
	f    stream.File
	buf  []byte
	size int64 // of everything taken
	sum  uint32
}

func (o *output) Write(p []byte) (int, error) {
	if len(o.buf)+len(p) > bufferSize {
		if err := o.flush(); err != nil {
			return 0, err
		}
	}
	o.size += int64(len(p))
	if len(p) >= bufferSize {
		return len(p), o.put(p)
	}
	o.buf = append(o.buf, p...)
	return len(p), nil
}

func (o *output) put(p []byte) error {
	o.sum = crc32.Update(o.sum, castagnoli, p)
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
	out   *output
	body  body
	begun time.Time
	seq   int   // within the epoch
	used  int64 // when it took its last row, in rows of the epoch
}

// bytes is about how large the file is.
func (p *openPart) bytes() int64 { return p.out.size + p.body.held() }

// write adds a row.
func (p *openPart) write(r *Row) error {
	if err := p.body.write(r); err != nil {
		return err
	}
	p.Rows++
	return nil
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
	p.body, p.out.buf = nil, nil
	return nil
}

// sync makes the file durable and closes it.
func (p *openPart) sync() error {
	err := p.out.f.Sync()
	if cerr := p.out.f.Close(); err == nil {
		err = cerr
	}
	p.out = nil
	return err
}
