package lint

import (
	"strings"
	"testing"
)

// room is one package, or a subtree ("x/..."), and what its non-test code may
// import. The most exact row counts. Floors, lowest first: a package imports
// lower floors only, never a sibling. An arrow that is not here does not exist.
type room struct {
	pattern string
	imports string // packages of this module; "*" is any but programs and test support
	uses    string // guarded libraries, by their name in the table below
}

const (
	// Everybody above stream may assert, name fault points and ask for broken rules.
	ground    = "internal/invariant internal/fault internal/broken "
	contracts = ground + "stream state checkpoint "
	engine    = contracts + "expr/... source transform sink "
)

var rooms = []room{
	{"internal/invariant", "", "std"},
	{"internal/fault", "", "std"},
	{"internal/broken", "", "std"},
	{"internal/broken/brokentest", "internal/broken", "testlib"},
	{"stream", "internal/invariant", "std"},

	{"expr/...", ground + "stream", ""}, // documents, decimals: the pieces
	{"expr", ground + "stream expr/...", "exprlang"},
	{"state", ground + "stream", ""},
	{"checkpoint", ground + "stream state", ""},
	{"state/keyed", ground + "stream state", ""},
	{"state/pebbledb", ground + "stream state state/keyed", "pebble"},
	{"state/statetest", ground + "stream state", "testlib"},
	{"checkpoint/filestore", contracts, ""},
	{"checkpoint/blobstore", contracts, ""},
	{"checkpoint/memstore", contracts, ""},
	{"checkpoint/storagetest", contracts, "testlib"},

	{"source", contracts, ""},
	{"transform", contracts + "expr/... state/keyed", ""},
	{"sink", contracts + "expr/...", ""},
	{"sink/sinktest", contracts + "sink checkpoint/memstore", "testlib"},

	{"pipeline", engine + "state/keyed", ""},
	{"config", engine + "pipeline", "yaml"},
	{"config/configtest", "stream config", "testlib"},

	// Beside pipeline, never meeting it: only cmd joins the two.
	{"internal/peer", "stream", ""},
	{"internal/peer/peertest", "", "testlib"},
	{"internal/kafkaconn", ground + "stream internal/peer", "kafka"},
	{"internal/pgconn", ground + "stream internal/peer", "pgx"},
	{"sink/kafkatxn", contracts + "sink internal/kafkaconn", "kafka"},
	{"sink/sqltxn", contracts + "expr/... sink internal/pgconn", "pgx"},
	{"sink/sqltxn/sqltest", contracts + "expr/... sink sink/sqltxn internal/pgconn", "pgx testlib"},
	{"source/kafka", contracts + "source internal/kafkaconn", "kafka"},
	{"sink/twophase/kafka", contracts + "expr/... sink sink/kafkatxn internal/kafkaconn", "kafka"},
	{"sink/twophase/postgres", contracts + "expr/... sink sink/sqltxn internal/pgconn", "pgx"},
	{"sink/twophase/file", contracts + "expr/... sink", "parquet"},
	{"sink/wal", contracts + "sink", ""},
	{"sink/wal/postgres", contracts + "expr/... sink sink/wal sink/sqltxn internal/pgconn", "pgx"},
	{"sink/wal/kafka", contracts + "sink sink/wal sink/kafkatxn internal/kafkaconn", "kafka"},
	{"sink/wal/http", contracts + "sink sink/wal", ""},
	{"sink/idempotent", contracts + "sink", ""},
	{"sink/idempotent/storetest", contracts + "sink sink/sinktest sink/idempotent", "testlib"},
	{"sink/idempotent/postgres", contracts + "expr/... sink sink/idempotent sink/sqltxn internal/pgconn", "pgx"},
	{"sink/idempotent/redis", contracts + "expr/... sink sink/idempotent", "redis"},

	{"internal/telemetry", engine + "pipeline", "otel cli"},
	{"internal/control", ground + "stream pipeline", ""},

	{"config/redis", engine + "pipeline config sink/idempotent sink/idempotent/redis", "yaml"},
	{"config/file", engine + "pipeline config sink/twophase/file", "parquet yaml"},
	{"config/http", engine + "pipeline config sink/wal sink/wal/http", "yaml"},
	{"config/postgres", engine + "pipeline config sink/sqltxn sink/twophase/postgres sink/wal sink/wal/postgres sink/idempotent sink/idempotent/postgres internal/pgconn", "pgx yaml"},
	{"config/kafka", engine + "pipeline config source/kafka sink/kafkatxn sink/twophase/kafka sink/wal sink/wal/kafka internal/kafkaconn", "kafka yaml"},

	// verify must not share the engine's mistakes: of the product it has expr alone.
	{"verify", "internal/invariant stream expr/... internal/kafkaconn internal/pgconn", "kafka pgx redis parquet yaml"},
	{"doctor", "*", "kafka pgx"},
	{"deadletter", "*", "kafka pgx"},
	{"demo", "*", "kafka"},
	{"cmd/...", "*", "kafka pgx otel cli"},
	{"examples/...", "*", "kafka"},

	// Programs and test support: nothing of the product imports these.
	{"internal/testservice", "", "containers testlib"},
	{"internal/kafkatest", "internal/testservice", "kafka containers testlib"},
	{"internal/pgtest", "internal/testservice", "pgx containers testlib"},
	{"internal/redistest", "internal/testservice", "redis containers testlib"},
	{"sink/kafkatxn/txntest", contracts + "sink sink/sinktest internal/kafkaconn internal/kafkatest", "kafka testlib"},
	{"internal/simtest/...", "*", "kafka pebble testlib"},
	{"internal/testrun", "", "std"},
	{"internal/lint", "", "std testlib"},
	{"integration/...", "* test", "kafka pgx redis pebble parquet containers testlib"},
	{"bench/...", "* test", "kafka pgx pebble parquet testlib"},
}

// support is what "*" leaves out and "test" lets in.
const support = "internal/testservice internal/kafkatest internal/pgtest internal/redistest internal/simtest/... state/statetest sink/sinktest sink/sqltxn/sqltest sink/kafkatxn/txntest sink/idempotent/storetest checkpoint/storagetest config/configtest internal/peer/peertest integration/..."

// programs are imported by nobody.
const programs = "cmd/... bench/... examples/... internal/testrun internal/lint"

// guarded are the libraries that only some rooms may use, by prefix of the import path.
var guarded = []struct{ name, prefixes string }{
	{"kafka", "github.com/twmb/"},
	{"pgx", "github.com/jackc/"},
	{"pebble", "github.com/cockroachdb/pebble"},
	{"otel", "go.opentelemetry.io/"},
	{"containers", "github.com/testcontainers/ github.com/moby/ github.com/Shopify/toxiproxy"},
	{"parquet", "github.com/parquet-go/"},
	{"exprlang", "github.com/expr-lang/"},
	{"cli", "github.com/spf13/ github.com/lmittmann/"},
	{"redis", "github.com/redis/"},
	{"yaml", "github.com/goccy/go-yaml"},
	{"testlib", "testing pgregory.net/rapid github.com/cockroachdb/datadriven go.uber.org/goleak github.com/rogpeppe/"},
}

func TestArrows(t *testing.T) {
	for _, f := range files(t) {
		r, ok := roomOf(f.dir)
		if !ok {
			t.Errorf("%s: package %s is not in the table of rooms: add it to internal/lint/arrows_test.go", f.path, f.dir)
			continue
		}
		for _, spec := range f.ast.Imports {
			if why := r.refuses(importPath(spec), f); why != "" {
				t.Errorf("%s:%d: %s", f.path, line(spec), why)
			}
		}
	}
}

func roomOf(dir string) (best room, ok bool) {
	for _, r := range rooms {
		if covers(r.pattern, dir) && len(r.pattern) > len(best.pattern) || r.pattern == dir {
			best, ok = r, true
			if r.pattern == dir {
				return best, true
			}
		}
	}
	return best, ok
}

// covers: "a/..." is everything below a, and a itself.
func covers(pattern, dir string) bool {
	prefix, below := strings.CutSuffix(pattern, "/...")
	return dir == prefix || below && strings.HasPrefix(dir, prefix+"/")
}

func oneOf(patterns, dir string) bool {
	for _, p := range strings.Fields(patterns) {
		if covers(p, dir) {
			return true
		}
	}
	return false
}

func has(words, word string) bool {
	for _, w := range strings.Fields(words) {
		if w == word {
			return true
		}
	}
	return false
}

// refuses gives the reason why the room may not import path, or "".
func (r room) refuses(path string, f source) string {
	if inside, ok := strings.CutPrefix(path, module+"/"); ok {
		return r.refusesInside(inside, f)
	}
	for _, g := range guarded {
		for _, prefix := range strings.Fields(g.prefixes) {
			if path == prefix || strings.HasPrefix(path, strings.TrimSuffix(prefix, "/")+"/") {
				return r.refusesLibrary(g.name, path, f)
			}
		}
	}
	if has(r.uses, "std") && !f.test && strings.Contains(strings.Split(path, "/")[0], ".") {
		return f.dir + " uses the standard library only, not " + path
	}
	return ""
}

func (r room) refusesLibrary(name, path string, f source) string {
	if has(r.uses, name) || f.test && (name == "testlib" || name == "pebble") {
		return ""
	}
	return f.dir + " may not use " + path + " (" + name + " is for other rooms)"
}

func (r room) refusesInside(path string, f source) string {
	if path == f.dir {
		return "" // an external test of the package
	}
	if f.test {
		return r.refusesInTest(path, f)
	}
	within := strings.HasSuffix(r.pattern, "/...") && covers(r.pattern, path)
	any := has(r.imports, "*") && !oneOf(programs, path) && !oneOf(support, path)
	test := has(r.imports, "test") && oneOf(support, path)
	if within || any || test || oneOf(r.imports, path) {
		return ""
	}
	return f.dir + " may not import " + path + ": no such arrow in the table of rooms"
}

// refusesInTest: tests may look around, but a room that is free of Kafka stays so in its tests, and quick.
func (r room) refusesInTest(path string, f source) string {
	kafka, pg, rd := path == "internal/kafkatest", path == "internal/pgtest", path == "internal/redistest"
	if kafka && !has(r.uses, "kafka") || pg && !has(r.uses, "pgx") || rd && !has(r.uses, "redis") {
		return f.dir + " may not start servers in its tests: they belong to integration"
	}
	if oneOf(programs, path) && !oneOf(programs, f.dir) {
		return f.dir + " may not import the program " + path
	}
	return ""
}

// The table itself: each row once, and arrows only to rows above, so that no cycle can be written down.
func TestTableOfRooms(t *testing.T) {
	seen := ""
	for _, r := range rooms {
		if has(seen, r.pattern) {
			t.Errorf("%s is listed twice", r.pattern)
		}
		for _, to := range strings.Fields(r.imports) {
			if to != "*" && to != "test" && !has(seen, to) {
				t.Errorf("%s -> %s: the target must stand in a row above", r.pattern, to)
			}
		}
		seen += " " + r.pattern
	}
}
