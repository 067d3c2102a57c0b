package checkpoint_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"etl/checkpoint"
	"etl/checkpoint/memstore"
	"etl/state"
	"etl/stream"
)

func newUploader(st checkpoint.Storage, o checkpoint.UploaderOptions) *checkpoint.Uploader {
	o.Storage, o.World, o.Lineage, o.Attempt = st, stream.World{Clock: stream.SystemClock{}}, stream.Lineage{0xab, 0xcd}, 3
	return checkpoint.NewUploader(o)
}

func wait(t *testing.T, ticket state.Ticket) state.Handle {
	t.Helper()
	h, err := ticket.Wait(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// readBack returns the bytes of a handle.
func readBack(st checkpoint.Storage, h state.Handle) ([]byte, error) {
	r, err := checkpoint.NewObjects(st).Read(context.Background(), h)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(r)
	return b, errors.Join(err, r.Close())
}

// TestUploaderPacks: frames of many subtasks that come close together share one
// object, and each handle finds its own bytes again.
func TestUploaderPacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(t.Name())
		u := newUploader(st, checkpoint.UploaderOptions{})
		defer u.Close()
		tickets := make([]state.Ticket, 64)
		var wg sync.WaitGroup
		for i := range tickets {
			wg.Go(func() { tickets[i] = u.Append(state.Segment, frame(i)) })
		}
		wg.Wait()
		names := map[string]bool{}
		for i, ticket := range tickets {
			h := wait(t, ticket)
			names[h.Object] = true
			if h.Scope != state.Shared || h.Role != state.Segment {
				t.Errorf("frame %d became %v", i, h)
			}
			if b, err := readBack(st, h); err != nil || !bytes.Equal(b, frame(i)) {
				t.Fatalf("frame %d came back as %d bytes, %v", i, len(b), err)
			}
		}
		if len(names) != 1 || !names["objects/abcd0000-3-000001"] {
			t.Errorf("64 frames lie in %v", names)
		}
	})
}

func frame(i int) []byte { return []byte(strings.Repeat(fmt.Sprint(i, "-"), 100+i)) }

// TestUploaderSizes: a full object does not wait, small short-lived frames need no
// object, and short-lived ones do not share objects with long-lived ones.
func TestUploaderSizes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New(t.Name())
		u := newUploader(st, checkpoint.UploaderOptions{MaxBytes: 1000, InlineBelow: 100, Delay: time.Hour})
		defer u.Close()
		started := time.Now()
		big := u.Append(state.Segment, make([]byte, 5000))
		h := wait(t, big)
		if h.Size != 5000 || time.Since(started) > 0 {
			t.Errorf("a full object waited %v: %v", time.Since(started), h)
		}
		inline := wait(t, u.Append(state.Operator, []byte("small")))
		if inline.Scope != state.Inline || string(inline.Bytes) != "small" || inline.Object != "" {
			t.Errorf("a small operator state became %v", inline)
		}
		if b, err := readBack(st, inline); err != nil || string(b) != "small" {
			t.Errorf("inline bytes came back as %q, %v", b, err)
		}
		shared, private, rows := u.Append(state.Segment, []byte("segment")), u.Append(state.Writer, make([]byte, 100)), u.Append(state.Rows, []byte("rows"))
		a, b, c := wait(t, shared), wait(t, private), wait(t, rows)
		if c.Scope != state.Shared || c.Object == a.Object || c.Object == b.Object {
			t.Errorf("rows %v, state %v and private %v", c, a, b)
		}
		if a.Scope != state.Shared || b.Scope != state.Private || a.Object == b.Object || a.Object == h.Object {
			t.Errorf("shared %v and private %v", a, b)
		}
		if time.Since(started) != time.Hour {
			t.Errorf("an object that was not full waited %v", time.Since(started))
		}
	})
}

// TestUploaderFailures: a failed write fails its own tickets only; what follows
// gets a new name; an unconfirmed sync fails everything that follows.
func TestUploaderFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, full := memstore.New(t.Name()), errors.New("no space left on device")
		u := newUploader(st, checkpoint.UploaderOptions{})
		defer u.Close()
		fail := full
		st.Inject(func(c memstore.Call) memstore.Verdict {
			if c.Op == "create" && fail != nil {
				return memstore.Verdict{Err: fail, Lost: true}
			}
			return memstore.Verdict{}
		})
		one, two := u.Append(state.Segment, []byte("one")), u.Append(state.Segment, []byte("two"))
		for _, ticket := range []state.Ticket{one, two} {
			if h, err := ticket.Wait(context.Background()); !errors.Is(err, full) || h.Object != "" {
				t.Fatalf("got %v, %v", h, err)
			}
		}
		fail = nil
		if h := wait(t, u.Append(state.Segment, []byte("three"))); h.Object != "objects/abcd0000-3-000002" {
			t.Errorf("the name after a failure is %s", h.Object)
		}
		fail = fmt.Errorf("sync: %w", checkpoint.ErrNotDurable)
		if _, err := u.Append(state.Segment, []byte("four")).Wait(context.Background()); !errors.Is(err, checkpoint.ErrNotDurable) || stream.ClassOf(err) != stream.Restart {
			t.Errorf("an unconfirmed sync: %v", err)
		}
		fail = nil
		if _, err := u.Append(state.Segment, []byte("five")).Wait(context.Background()); !errors.Is(err, checkpoint.ErrNotDurable) {
			t.Errorf("after an unconfirmed sync: %v", err)
		}
	})
}

// TestUploaderClose: what is not durable is given up, and nobody waits for ever.
func TestUploaderClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, hang := memstore.New(t.Name()), make(chan struct{})
		st.Inject(func(memstore.Call) memstore.Verdict { return memstore.Verdict{Wait: hang} })
		u := newUploader(st, checkpoint.UploaderOptions{})
		ticket := u.Append(state.Segment, []byte("x"))
		synctest.Wait()
		u.Close()
		if _, err := ticket.Wait(context.Background()); err == nil {
			t.Error("a frame is durable after its upload was given up")
		}
		if _, err := u.Append(state.Segment, []byte("y")).Wait(context.Background()); err == nil {
			t.Error("a closed uploader took a frame")
		}
	})
}

// TestReadVerifies: altered, cut and missing bytes are never handed out as whole.
func TestReadVerifies(t *testing.T) {
	st, ctx := memstore.New(t.Name()), context.Background()
	data := bytes.Repeat([]byte("0123456789"), 1000)
	size, crc, err := checkpoint.NewObjects(st).Create(ctx, "objects/a", bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	good := state.Handle{Role: state.BaseFile, Object: "objects/a", Size: size, CRC: crc}
	if b, err := readBack(st, good); err != nil || !bytes.Equal(b, data) {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	bad := map[string]state.Handle{
		"altered":        {Object: "objects/a", Size: size, CRC: crc + 1},
		"another range":  {Object: "objects/a", Offset: 1, Size: size - 1, CRC: crc},
		"too long":       {Object: "objects/a", Size: size + 1, CRC: crc},
		"missing":        {Object: "objects/b", Size: size, CRC: crc},
		"inline altered": {Scope: state.Inline, Bytes: []byte("x"), Size: 1, CRC: 1},
		"inline cut":     {Scope: state.Inline, Bytes: []byte("x"), Size: 2},
	}
	for name, h := range bad {
		if b, err := readBack(st, h); stream.ClassOf(err) != stream.RestoreRefused {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
		m := &checkpoint.Metadata{Tasks: []checkpoint.TaskState{{Handles: []state.Handle{h}}}}
		refused := name == "too long" || name == "missing"
		if err := checkpoint.VerifyObjects(ctx, st, m); (err != nil) != refused {
			t.Errorf("%s: VerifyObjects says %v", name, err)
		}
	}
}
