package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"strconv"
	"strings"

	"etl/state"
	"etl/stream"
)

// objectPrefix is the folder of everything that metadata refers to.
const objectPrefix = "objects/"

// ObjectName returns a name for an object of an attempt: who made it can be read
// off it, so that a later start knows what a dead attempt left (I12, I18). rest is
// unique within the attempt.
func ObjectName(l stream.Lineage, a stream.Attempt, rest string) string {
	return fmt.Sprintf("%s%s-%d-%s", objectPrefix, l.Short(), a, rest)
}

// objectAttempt reads the attempt off a name of ObjectName.
func objectAttempt(name string) (stream.Attempt, bool) {
	rest, ok := strings.CutPrefix(name, objectPrefix)
	lineage, rest, ok2 := strings.Cut(rest, "-")
	number, _, ok3 := strings.Cut(rest, "-")
	a, err := strconv.ParseUint(number, 10, 32)
	return stream.Attempt(a), ok && ok2 && ok3 && len(lineage) == 8 && err == nil
}

// Objects is the part of a Storage that state backends and committers use.
type Objects struct{ st Storage }

var _ state.Objects = Objects{}

// NewObjects returns the objects of a storage.
func NewObjects(st Storage) Objects { return Objects{st} }

// Create stores r under name, which is one of ObjectName; it is durable then.
func (o Objects) Create(ctx context.Context, name string, r io.Reader) (int64, uint32, error) {
	size, crc, err := o.st.Create(ctx, name, r)
	if err != nil {
		return 0, 0, storageError("create "+name, o.st, err)
	}
	return size, crc, nil
}

// Read opens the range of a handle. A reader that gets to the end without an
// error has read the very bytes that were written.
func (o Objects) Read(ctx context.Context, h state.Handle) (io.ReadCloser, error) {
	var r io.ReadCloser
	if h.Scope == state.Inline {
		if int64(len(h.Bytes)) != h.Size {
			return nil, altered(&h, "it has %d bytes instead of %d", len(h.Bytes), h.Size)
		}
		r = io.NopCloser(bytes.NewReader(h.Bytes))
	} else {
		var err error
		if r, err = o.st.Open(ctx, h.Object, h.Offset, h.Size); err != nil {
			return nil, unreadable(&h, o.st, err)
		}
	}
	return &checked{r: r, h: h, left: h.Size, sum: crc32.New(castagnoli)}, nil
}

// checked verifies the checksum before it hands out the last bytes.
type checked struct {
	r    io.ReadCloser
	h    state.Handle
	left int64
	sum  hash.Hash32
}

func (c *checked) Read(p []byte) (int, error) {
	n, err := c.r.Read(p[:min(int64(len(p)), c.left)])
	_, _ = c.sum.Write(p[:n])
	c.left -= int64(n)
	switch {
	case c.left > 0 && errors.Is(err, io.EOF):
		return 0, altered(&c.h, "it ends %d bytes early", c.left)
	case c.left > 0:
		return n, err
	case c.sum.Sum32() != c.h.CRC:
		return 0, altered(&c.h, "its checksum is %08x instead of %08x", c.sum.Sum32(), c.h.CRC)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

func (c *checked) Close() error { return c.r.Close() }

// VerifyObjects refuses a checkpoint one of whose objects is missing or too
// short (V3). It reads no contents: every reader checks those.
func VerifyObjects(ctx context.Context, st Storage, m *Metadata) error {
	need := map[string]state.Handle{} // by object, the handle that reaches furthest
	m.Objects(func(h state.Handle) {
		if old, ok := need[h.Object]; !ok || h.Offset+h.Size > old.Offset+old.Size {
			need[h.Object] = h
		}
	})
	for name, h := range need {
		info, err := st.Stat(ctx, name)
		if err != nil {
			return unreadable(&h, st, err)
		}
		if info.Size < h.Offset+h.Size {
			return altered(&h, "the object has %d bytes instead of at least %d", info.Size, h.Offset+h.Size)
		}
	}
	return nil
}

// unreadable tells an object that is gone from a storage that does not answer.
func unreadable(h *state.Handle, st Storage, err error) error {
	if errors.Is(err, ErrNotFound) {
		return stream.Errorf(stream.RestoreRefused, "storage.object_missing", "read", h.Object, "%w in %s", err, st.URL()).
			WithFix("put the object back, or restore from another checkpoint with --from")
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return altered(h, "%w", err)
	}
	return storageError("read "+h.Object, st, err)
}

func altered(h *state.Handle, format string, args ...any) error {
	name := h.Object
	if h.Scope == state.Inline {
		name = "bytes in the metadata"
	}
	return stream.Errorf(stream.RestoreRefused, "storage.object_altered", "read",
		fmt.Sprintf("%s [%d,%d) (%s)", name, h.Offset, h.Offset+h.Size, h.Role), format, args...).
		WithFix("put the object back from a copy, or restore from another checkpoint with --from")
}
