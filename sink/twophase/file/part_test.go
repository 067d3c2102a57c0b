package file

import (
	"bytes"
	"slices"
	"testing"
)

// sizes notes the sizes of writes.
type sizes struct {
	bytes.Buffer
	n []int
}

func (s *sizes) Write(p []byte) (int, error) {
	s.n = append(s.n, len(p))
	return s.Buffer.Write(p)
}

// A file is written in whole buffers but for its end, whatever the size of its lines, and
// nothing of them is lost or changes its place.
func TestWholeBuffers(t *testing.T) {
	var to sizes
	o := &output{f: &to, buf: make([]byte, 0, bufferSize)}
	var want []byte
	for i := range 3000 {
		line := bytes.Repeat([]byte{'a' + byte(i%26)}, i%997*(1+i%3*100))
		want = append(append(want, line...), '\n')
		if err := o.writeLine(line); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.flush(); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(to.Bytes(), want) || o.size != int64(len(want)) {
		t.Errorf("%d bytes were written and %d counted, of %d", to.Len(), o.size, len(want))
	}
	if odd := slices.IndexFunc(to.n, func(n int) bool { return n%bufferSize != 0 }); odd >= 0 && odd < len(to.n)-1 {
		t.Errorf("write %d of %d has %d bytes", odd, len(to.n), to.n[odd])
	}
}
