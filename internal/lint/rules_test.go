package lint

import (
	"go/parser"
	"testing"
)

// The negative controls: a rule that finds nothing may simply be blind.

func snippet(t *testing.T, path, text string) source {
	t.Helper()
	file, err := parser.ParseFile(positions, path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return source{path: path, ast: file}
}

func TestBannedCallsAreSeen(t *testing.T) {
	f := snippet(t, "x.go", `package x
import (
	clock "time"
	"fmt"
	"math/rand/v2"
	"os"
	_ "net/http/pprof"
)
var now = clock.Now // only passed on
func f(r *rand.Rand, println func()) {
	fmt.Println(rand.IntN(3), r.IntN(3), clock.Second)
	fmt.Fprintln(os.Stderr, rand.New(rand.NewPCG(1, 2)))
	os.Exit(1)
	panic("no")
}`)
	want := []string{"_ net/http/pprof", "clock.Now", "fmt.Println", "rand.IntN", "os.Exit", "panic"}
	got := map[string]bool{}
	for _, u := range uses(f) {
		got[u.name] = true
	}
	for _, name := range want {
		if !got[name] {
			t.Errorf("%s was not seen", name)
		}
	}
	if len(got) != len(want) {
		t.Errorf("saw %v, want exactly %v", got, want)
	}
}

func TestArrowsAreRefused(t *testing.T) {
	for _, c := range []struct {
		from, to string
		test     bool
		allowed  bool
	}{
		{"pipeline", "etl/sink", false, true},
		{"pipeline", "etl/sink/twophase/kafka", false, false},
		{"pipeline", "github.com/twmb/franz-go/pkg/kgo", false, false},
		{"pipeline", "github.com/twmb/franz-go/pkg/kgo", true, false},
		{"pipeline", "pgregory.net/rapid", false, false},
		{"pipeline", "pgregory.net/rapid", true, true},
		{"pipeline", "etl/internal/kafkatest", true, false},
		{"source/kafka", "etl/internal/kafkatest", true, true},
		{"source/kafka", "etl/internal/kafkatest", false, false},
		{"source/kafka", "etl/pipeline", false, false},
		{"source/kafka", "etl/sink/kafkatxn", false, false},
		{"state/keyed", "etl/state/pebbledb", false, false},
		{"state/keyed", "github.com/cockroachdb/pebble/v2", false, false},
		{"state/pebbledb", "github.com/cockroachdb/pebble/v2/vfs", false, true},
		{"verify", "etl/expr/jsondoc", false, true},
		{"verify", "etl/config", false, false},
		{"stream", "github.com/cespare/xxhash/v2", false, false},
		{"cmd/etl", "etl/pipeline", false, true},
		{"cmd/etl", "etl/internal/kafkatest", false, false},
		{"cmd/etl/sub", "etl/cmd/etl", false, true},
		{"demo", "etl/cmd/etl", false, false},
		{"integration/harness", "etl/internal/kafkatest", false, true},
		{"checkpoint", "testing", false, false},
	} {
		r, ok := roomOf(c.from)
		if !ok {
			t.Fatalf("no room %s", c.from)
		}
		why := r.refuses(c.to, source{dir: c.from, test: c.test})
		if (why == "") != c.allowed {
			t.Errorf("%s -> %s (test %v): %q, allowed should be %v", c.from, c.to, c.test, why, c.allowed)
		}
	}
	if _, ok := roomOf("util"); ok {
		t.Error("a package nobody listed has a room")
	}
}

func TestRatchetOnlyShrinks(t *testing.T) {
	for _, c := range []struct {
		listed map[string]int
		lines  int
		fails  bool
	}{
		{nil, 70, false},
		{nil, 71, true},
		{map[string]int{"x": 80}, 80, false},
		{map[string]int{"x": 80}, 81, true},
		{map[string]int{"x": 80}, 79, true},
	} {
		quiet := &recorder{TB: t}
		measure(quiet, c.listed, "x", c.lines, 70)
		if quiet.failed != c.fails {
			t.Errorf("%d lines with %v listed: failed %v, want %v", c.lines, c.listed, quiet.failed, c.fails)
		}
	}
}

// recorder notes a failure instead of failing.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Errorf(string, ...any) { r.failed = true }
