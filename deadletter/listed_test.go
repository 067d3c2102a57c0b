package deadletter

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"etl/checkpoint"
	"etl/checkpoint/memstore"
	"etl/source"
	"etl/stream"
)

// shelf is a store of letters in memory: each is a character, in order.
type shelf struct {
	Letters // what a reader of a list does not call
	letters []rune
	fails   error
}

func (*shelf) Place() string { return "shelf" }

func (s *shelf) Read(_ context.Context, _ stream.World, f func(*Found) error) (others int64, err error) {
	for _, id := range s.letters {
		l := Found{At: string(id), ID: ID{byte(id >> 8), byte(id)}}
		l.Component, l.Code, l.Value = "c", "x", []byte(string(id))
		if err := f(&l); err != nil {
			return 0, fmt.Errorf("the reading ended: %w", err)
		}
	}
	return 1, s.fails
}

// opened makes the reader of a job, which begins at a position; it is fresh with -1.
func opened(t *testing.T, s *shelf, to *reading, at int64) (r source.Reader, splits []stream.Split) {
	t.Helper()
	c, err := newListed(t.Context(), s, to)
	if err != nil {
		t.Fatal(err)
	}
	var known []stream.Split
	if at >= 0 {
		ids, _, _ := readList(t.Context(), to.own)
		known = []stream.Split{{Topic: "shelf", NextOffset: at, End: int64(len(ids))}}
	}
	add, err := c.NewEnumerator().Discover(t.Context(), known)
	if err != nil {
		t.Fatal(err)
	}
	r = c.NewReader()
	if err := r.Open(t.Context(), source.Env{}, append(known, add...)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r, append(known, add...)
}

// taken polls to the end and returns the values.
func taken(t *testing.T, r source.Reader) string {
	t.Helper()
	var out strings.Builder
	for {
		el, err := r.Poll(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b, ok := el.(*stream.Batch)
		if !ok {
			return out.String()
		}
		for i := range b.Records {
			l, ok := stream.OpenLetter(&b.Records[i])
			if !ok {
				t.Fatalf("%+v is no letter", b.Records[i])
			}
			out.Write(l.Value)
		}
		b.Release()
	}
}

// A job reads what its list has, from any position, whatever has come and gone since;
// the next job reads what has come.
func TestListed(t *testing.T) {
	s, first := &shelf{letters: []rune("bdfh")}, memstore.New("1")
	to := &reading{own: first, tally: &Tally{}}
	r, splits := opened(t, s, to, -1)
	if got := taken(t, r); got != "bdfh" || splits[0].NextOffset != 0 || splits[0].End != 4 {
		t.Errorf("read %q with %v", got, splits)
	}
	if at := r.Splits(); !at[0].Finished() || to.tally.Others.Load() != 1 || to.tally.Gone.Load() != 0 {
		t.Errorf("at the end it is at %v", at)
	}
	s.letters = []rune("abcdegh") // a, c, e and g came, f went
	for at, want := range []string{"bdh", "dh", "h", "h", ""} {
		to.tally = &Tally{}
		r, _ := opened(t, s, to, int64(at))
		if got := taken(t, r); got != want {
			t.Errorf("from %d it reads %q, want %q", at, got, want)
		}
		if gone := to.tally.Gone.Load(); gone != map[bool]int64{true: 1}[at < 3] || !r.Splits()[0].Finished() {
			t.Errorf("from %d on %d are gone, and it ends at %v", at, gone, r.Splits())
		}
	}
	next := &reading{own: memstore.New("2"), before: []checkpoint.Storage{first}, tally: &Tally{}}
	if r, _ := opened(t, s, next, -1); taken(t, r) != "aceg" {
		t.Error("the next job does not read what has come")
	}
	third := &reading{own: memstore.New("3"), before: []checkpoint.Storage{first, next.own}, tally: &Tally{}}
	r, splits = opened(t, s, third, -1)
	if got := taken(t, r); got != "" || !splits[0].Finished() {
		t.Errorf("a job without letters reads %q with %v", got, splits)
	}
}

// A list that is full leaves the rest to the jobs that follow.
func TestFullList(t *testing.T) {
	s := &shelf{letters: []rune("abcde")}
	var before []checkpoint.Storage
	for _, want := range []string{"ab", "cd", "e", ""} {
		to := &reading{own: memstore.New(want), before: before, tally: &Tally{}}
		if _, err := list(t.Context(), s, to, 2); err != nil {
			t.Fatal(err)
		}
		r, _ := opened(t, s, to, -1)
		if got := taken(t, r); got != want {
			t.Errorf("read %q, want %q", got, want)
		}
		before = append(before, to.own)
	}
}

// The position counts what Poll has returned and nothing else, so that a barrier may come
// between any two batches; a reader that is closed there ends its reading.
func TestListedPositions(t *testing.T) {
	const all = 1200
	s := &shelf{}
	for i := range all {
		s.letters = append(s.letters, rune(0x100+i))
	}
	to := &reading{own: memstore.New("1"), tally: &Tally{}}
	r, _ := opened(t, s, to, -1)
	for n := int64(0); n < all; {
		el, err := r.Poll(t.Context())
		b, ok := el.(*stream.Batch)
		if err != nil || !ok {
			t.Fatalf("%v, %v", el, err)
		}
		n += int64(len(b.Records))
		if last := string(b.Records[len(b.Records)-1].Value); r.Splits()[0].NextOffset != n || last != string(rune(0x100+n-1)) || len(b.Records) == all {
			t.Fatalf("behind %d letters, the last of them %q, it is at %v", n, last, r.Splits())
		}
		half, _ := opened(t, s, to, n) // goes on where this one is
		if got := []rune(taken(t, half)); int64(len(got)) != all-n {
			t.Errorf("from %d it reads %d letters", n, len(got))
		}
		b.Release()
	}
	r, _ = opened(t, s, to, -1)
	if _, err := r.Poll(t.Context()); err != nil || r.Close() != nil {
		t.Errorf("closed in the middle: %v", err)
	}
}

// A store that fails, or gives letters in another order, ends the attempt; a list that is
// damaged or that another job's checkpoint counts refuses the start.
func TestListedRefuses(t *testing.T) {
	s, to := &shelf{letters: []rune("abc")}, &reading{own: memstore.New("1"), tally: &Tally{}}
	opened(t, s, to, -1)
	for _, c := range []struct {
		letters string
		fails   error
		want    string
	}{{"acb", nil, "letter b came behind one that the list has later"}, {"ab", context.DeadlineExceeded, "deadline"}} {
		s.letters, s.fails = []rune(c.letters), c.fails
		r, _ := opened(t, s, to, 0)
		if _, err := r.Poll(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q %v: %v", c.letters, c.fails, err)
		}
	}
	c, err := newListed(t.Context(), s, to)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.NewEnumerator().Discover(t.Context(), []stream.Split{{End: 4}}); stream.ClassOf(err) != stream.RestoreRefused {
		t.Errorf("a checkpoint of another list: %v", err)
	}
	whole := "letters 1 1\n" + strings.Repeat("0", 32) + "\n"
	for _, text := range []string{"", "letters 2 0\n", "letters 1 1\n", whole[:len(whole)-1], whole + "\n", strings.Replace(whole, "00\n", "0g\n", 1), strings.Replace(whole, "0\n", "0 ", 1)} {
		st := memstore.New("x")
		if err := st.PutIfAbsent(t.Context(), listName, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if ids, _, err := readList(t.Context(), st); stream.CodeOf(err) != "dlq.list" {
			t.Errorf("%q is %v, %v", text, ids, err)
		}
	}
}
