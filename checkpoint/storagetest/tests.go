package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"sync"
	"testing"

	"etl/checkpoint"
)

func putIfAbsent(t *testing.T, s Suite) {
	ctx, st := context.Background(), s.New(t)(t)
	want(t, st, "log/000000000001", "-")
	if _, err := st.Stat(ctx, "log/000000000001"); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("Stat of nothing: %v", err)
	}
	data := []byte("first")
	must(t, st.PutIfAbsent(ctx, "log/000000000001", data))
	data[0] = 'X' // the caller's slice is the caller's
	want(t, st, "log/000000000001", "first")
	if err := st.PutIfAbsent(ctx, "log/000000000001", []byte("second")); !errors.Is(err, checkpoint.ErrExists) {
		t.Errorf("the second put: %v, want ErrExists", err)
	}
	want(t, st, "log/000000000001", "first")
	must(t, st.PutIfAbsent(ctx, "log/000000000002", nil))
	want(t, st, "log/000000000002", "")
	b, err := st.Get(ctx, "log/000000000001")
	must(t, err)
	b[0] = 'Y' // what was got is the caller's
	want(t, st, "log/000000000001", "first")
}

// race: of several writers exactly one gets a name, all others are told so, and
// everybody reads the winner's bytes.
func race(t *testing.T, s Suite) {
	open := s.New(t)
	for round := range s.Rounds {
		name := fmt.Sprintf("log/%012d", round+1)
		errs := make([]error, s.Writers)
		got := make([]string, s.Writers)
		var wg sync.WaitGroup
		start := make(chan struct{})
		for w := range s.Writers {
			st := open(t)
			wg.Go(func() {
				<-start
				errs[w] = st.PutIfAbsent(context.Background(), name, fmt.Append(nil, "writer ", w, strings.Repeat(".", 4096)))
				b, _ := st.Get(context.Background(), name)
				got[w] = string(b)
			})
		}
		close(start)
		wg.Wait()
		winner := -1
		for w, err := range errs {
			switch {
			case err == nil && winner >= 0:
				t.Fatalf("round %d: writers %d and %d both got %s", round, winner, w, name)
			case err == nil:
				winner = w
			case !errors.Is(err, checkpoint.ErrExists):
				t.Fatalf("round %d: writer %d: %v, want ErrExists", round, w, err)
			}
		}
		if winner < 0 {
			t.Fatalf("round %d: nobody got %s", round, name)
		}
		for w, text := range got {
			if text != got[winner] || !strings.HasPrefix(text, fmt.Sprint("writer ", winner, ".")) {
				t.Fatalf("round %d: writer %d read %.20q, the winner was %d", round, w, text, winner)
			}
		}
	}
}

func create(t *testing.T, s Suite) {
	ctx, st := context.Background(), s.New(t)(t)
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	size, crc, err := st.Create(ctx, "objects/a", bytes.NewReader(data))
	must(t, err)
	if size != int64(len(data)) || crc != crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)) {
		t.Errorf("Create says %d bytes, crc %08x", size, crc)
	}
	b, err := st.Get(ctx, "objects/a")
	if err != nil || !bytes.Equal(b, data) {
		t.Errorf("Get returned %d bytes, %v", len(b), err)
	}
	broken := io.MultiReader(strings.NewReader("half"), errReader{})
	if _, _, err := st.Create(ctx, "objects/b", broken); !errors.Is(err, errBroken) {
		t.Errorf("Create from a reader that fails: %v", err)
	}
	wantList(t, st, "", "objects/a")
	if _, _, err := st.Create(ctx, "objects/a", strings.NewReader("again")); err == nil {
		t.Error("Create replaced an object")
	}
	b, err = st.Get(ctx, "objects/a")
	if err != nil || !bytes.Equal(b, data) {
		t.Error("a second Create changed an object")
	}
}

var errBroken = errors.New("broken reader")

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errBroken }

func ranges(t *testing.T, s Suite) {
	ctx, st := context.Background(), s.New(t)(t)
	must(t, st.PutIfAbsent(ctx, "objects/r", []byte("0123456789")))
	for _, c := range []struct {
		offset, size int64
		text         string
	}{{0, 10, "0123456789"}, {3, 4, "3456"}, {9, 1, "9"}, {10, 0, ""}, {0, 0, ""}} {
		if got, err := readRange(st, "objects/r", c.offset, c.size); err != nil || got != c.text {
			t.Errorf("bytes [%d,+%d): %q, %v; want %q", c.offset, c.size, got, err, c.text)
		}
	}
	for _, c := range [][2]int64{{0, 11}, {9, 2}, {11, 1}} {
		if got, err := readRange(st, "objects/r", c[0], c[1]); err == nil {
			t.Errorf("bytes [%d,+%d) of ten: %q and no error", c[0], c[1], got)
		}
	}
	if _, err := st.Open(ctx, "objects/none", 0, 0); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("Open of nothing: %v", err)
	}
}

func list(t *testing.T, s Suite) {
	ctx, st := context.Background(), s.New(t)(t)
	wantList(t, st, "")
	for _, name := range []string{"log/2", "log/1", "logs/3", "objects/a-b/c", "objects/a", "top"} {
		must(t, st.PutIfAbsent(ctx, name, []byte(name)))
	}
	wantList(t, st, "", "log/1", "log/2", "logs/3", "objects/a", "objects/a-b/c", "top")
	wantList(t, st, "log/", "log/1", "log/2")
	wantList(t, st, "log", "log/1", "log/2", "logs/3")
	wantList(t, st, "objects/a", "objects/a", "objects/a-b/c")
	wantList(t, st, "objects/a-b/c", "objects/a-b/c")
	wantList(t, st, "nothing/")
}

func deletes(t *testing.T, s Suite) {
	ctx, st := context.Background(), s.New(t)(t)
	must(t, st.PutIfAbsent(ctx, "objects/a", []byte("a")))
	must(t, st.PutIfAbsent(ctx, "objects/b", []byte("b")))
	must(t, st.Delete(ctx, "objects/a"))
	must(t, st.Delete(ctx, "objects/a"))
	must(t, st.Delete(ctx, "nowhere/at/all"))
	want(t, st, "objects/a", "-")
	wantList(t, st, "", "objects/b")
}

func names(t *testing.T, s Suite) {
	ctx, st := context.Background(), s.New(t)(t)
	for _, name := range []string{"", "/etc/passwd", "../x", "a/../../x", "a//b", "a/", ".hidden", "a/.b", "a b", "a\x00b", "ä", strings.Repeat("x", 201)} {
		if err := st.PutIfAbsent(ctx, name, []byte("x")); err == nil {
			t.Errorf("PutIfAbsent(%q) was accepted", name)
		}
		if _, err := st.Get(ctx, name); err == nil {
			t.Errorf("Get(%q) was accepted", name)
		}
		if err := st.Delete(ctx, name); err == nil {
			t.Errorf("Delete(%q) was accepted", name)
		}
	}
	wantList(t, st, "")
}

func notes(t *testing.T, s Suite) {
	ctx, st := context.Background(), s.New(t)(t)
	must(t, st.Note(ctx, "history/000001", []byte(`{"id":"1.1"}`)))
	must(t, st.Note(ctx, "history/000001", []byte(`{"id":"1.2"}`)))
	want(t, st, "history/000001", "{\"id\":\"1.1\"}\n{\"id\":\"1.2\"}\n")
	long := bytes.Repeat([]byte("x"), checkpoint.JournalLimit)
	must(t, st.Note(ctx, "history/000001", long))
	must(t, st.Note(ctx, "history/000001", []byte("new")))
	want(t, st, "history/000001", "new\n")
	if in, err := st.Stat(ctx, "history/000001.1"); err != nil || in.Size <= checkpoint.JournalLimit {
		t.Errorf("the old journal: %v, %v", in, err)
	}
}

func lock(t *testing.T, s Suite) {
	if s.NoLock {
		t.Skip("this storage has no lock")
	}
	ctx, open := context.Background(), s.New(t)
	one, two := open(t), open(t)
	unlock, held, err := one.Lock(ctx, checkpoint.Holder{Host: "a", PID: 1, Attempt: 3}, false)
	if err != nil || held != nil || unlock == nil {
		t.Fatalf("the first lock: %v, %v", held, err)
	}
	if unlock, held, err := two.Lock(ctx, checkpoint.Holder{Host: "b", PID: 2}, false); err != nil || unlock != nil || held == nil || held.Host != "a" || held.PID != 1 || held.Attempt != 3 {
		t.Fatalf("the second lock was told %v, %v", held, err)
	}
	taken, held, err := two.Lock(ctx, checkpoint.Holder{Host: "b", PID: 2}, true)
	if err != nil || held != nil || taken == nil {
		t.Fatalf("taking over: %v, %v", held, err)
	}
	must(t, unlock()) // the one that lost it
	if again, held, err := one.Lock(ctx, checkpoint.Holder{Host: "a"}, false); err != nil || again != nil || held == nil || held.Host != "b" {
		t.Fatalf("after the loser's unlock, the lock was told %v, %v", held, err)
	}
	must(t, taken())
	unlock, held, err = one.Lock(ctx, checkpoint.Holder{Host: "a"}, false)
	if err != nil || held != nil || unlock == nil {
		t.Fatalf("locking what is free: %v, %v", held, err)
	}
	must(t, unlock())
}

func reopened(t *testing.T, s Suite) {
	ctx, open := context.Background(), s.New(t)
	must(t, open(t).PutIfAbsent(ctx, "log/1", []byte("x")))
	want(t, open(t), "log/1", "x")
	wantList(t, open(t), "", "log/1")
}

func ended(t *testing.T, s Suite) {
	st, why := s.New(t)(t), errors.New("the attempt is over")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(why)
	if err := st.PutIfAbsent(ctx, "log/1", nil); !errors.Is(err, why) {
		t.Errorf("PutIfAbsent under an ended context: %v", err)
	}
	if _, _, err := st.Create(ctx, "objects/1", strings.NewReader("x")); !errors.Is(err, why) {
		t.Errorf("Create under an ended context: %v", err)
	}
	wantList(t, st, "")
}
