package kafka_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"etl/config"
)

// named are the groups whose keys are names that the file makes up.
var named = map[string]bool{"connections": true, "sources": true, "transforms": true, "sinks": true, "map": true, "columns": true, "fields": true,
	"aggregates": true, "route": true, "partition_by": true, "headers": true, "secret_headers": true}

// everyKind has keys that the examples lack.
const everyKind = `
name: every
parallelism: 2
checkpoint: { mode: exactly_once, interval: 10s, timeout: 1m, storage: "file:/mnt/checkpoints" }
state: { backend: memory, memory: 64MiB }
restart: { strategy: exponential, initial: 1s, max: 1m }
telemetry: { log: { level: info, format: json } }
dead_letter: { sink: rejects }
connections:
  main: { type: kafka, seed_brokers: ["h:9092"], tls: { server_name: h }, sasl: { mechanism: PLAIN, username: u, password: "${KAFKA_PASSWORD}" } }
  cache: { type: redis, address: "localhost:6379", username: u, password: "${KAFKA_PASSWORD}", database: 1 }
  db: { type: postgres, dsn: "postgres://u@localhost/d", max_connections: 4, schema: books }
sources:
  in: { type: kafka, connection: main, topics: [a, b], start: { offsets: { a: { 0: 1 }, b: { 0: 1 } } }, end: latest, isolation: read_committed, decode: { format: json, strict: false }, on_error: dead_letter }
  raw: { type: kafka, connection: main, topics: [c], start: latest, decode: raw }
  text: { type: kafka, connection: main, topics: [d], decode: text }
transforms:
  known: { type: filter, inputs: in, where: this.id != nil, on_error: skip }
  counts: { type: aggregate, inputs: [known], key: this.user, aggregates: { n: count, total: { op: sum, of: this.price } }, emit: on_change }
  kinds: { type: route, inputs: in, route: { big: this.n > 9, small: { when: this.n < 2 } }, default: rest, on_error: dead_letter, dead_letter: others }
sinks:
  copy: { type: kafka, inputs: raw, connection: main, topic: e, compression: lz4, transaction_timeout: 15m, transactional_id_prefix: p, headers: none }
  log: { type: kafka, inputs: kinds.big, connection: main, topic: f, delivery: wal, memory: 1MiB, max_log: 1GiB, map: { n: this.n }, encode: json }
  once: { type: kafka, inputs: kinds.small, connection: main, topic: g, delivery: at_least_once, linger: 1ms, key: this.k, value: this.v, encode: text }
  last: { type: kafka, inputs: counts, connection: main, topic: h, delivery: idempotent, key: this.key }
  lines: { type: file, inputs: kinds.rest, path: /mnt/lines, format: csv, compression: gzip, columns: { a: this.a }, partition_by: { day: this.day }, roll: { size: 1MiB, age: 1m } }
  words: { type: file, inputs: text, path: /mnt/words, value: this.value }
  table: { type: file, inputs: counts, path: /mnt/table, format: parquet, columns: { n: this.n, total: { value: this.total, type: "decimal(18, 2)" } } }
  hash: { type: redis, inputs: counts, connection: cache, kind: hash, key: [this.key], fields: { n: this.n }, prefix: "a:", tombstones: 1h }
  text_of: { type: redis, inputs: counts, connection: cache, kind: string, key: this.key, value: this.n, prefix: "b:", version: counter }
  rows: { type: postgres, inputs: known, connection: db, table: rows, mode: append, delivery: wal, max_log: 1GiB, columns: { a: this.a } }
  keyed: { type: postgres, inputs: counts, connection: db, table: keyed, mode: upsert, key: [user], delivery: idempotent, version: auto, version_column: v, columns: { user: this.key, n: this.n } }
  staged: { type: postgres, inputs: counts, connection: db, table: staged, mode: upsert, key: [user], strategy: staged, lock_timeout: 1s, columns: { user: this.key, n: this.n } }
  hook: { type: http, inputs: known, url: "https://h/x", method: PUT, format: json_lines, headers: { A: b }, map: { a: this.a }, timeout: 1s }
  rejects: { type: kafka, connection: main, topic: i, headers: pass_through }
  others: { type: postgres, connection: db, table: others, columns: { code: this.code, at: this.offset } }
`

// TestOneMistakeOneProblem makes every mistake of three kinds in every example and in
// everyKind: a key with a letter too many, a value of another kind, a value with a
// letter too many. Each is told once, with its fix, and nothing else is: no error and no warning
// that only follows from it.
func TestOneMistakeOneProblem(t *testing.T) {
	docs := map[string]string{"every kind": everyKind}
	for name, text := range documents(t) {
		if strings.HasSuffix(name, ".yaml") { // snippets have nothing that everyKind lacks
			docs[name] = text
		}
	}
	for _, name := range slices.Sorted(maps.Keys(docs)) {
		text := complete(docs[name])
		var root yaml.MapSlice
		if err := yaml.UnmarshalWithOptions([]byte(text), &root, yaml.UseOrderedMap()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mistakes(root, "", false, func(what string, least int) { loads(t, root, what, least) })
		})
	}
}

// loads demands at most one problem of a file, and at least as many as are given.
func loads(t *testing.T, root yaml.MapSlice, what string, least int) {
	t.Helper()
	b, err := yaml.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	if _, ps := loader().Load("p.yaml", b); len(ps) < least || len(ps) > 1 || len(ps) == 1 && fixless(&ps[0]) {
		var out bytes.Buffer
		if err := ps.Render(&out, config.Style{}); err != nil {
			t.Fatal(err)
		}
		t.Errorf("%s: %d problems\n%s", what, len(ps), out.String())
	}
}

// fixless reports whether a problem says not what to do. What an expression should have
// been, only its writer knows.
func fixless(p *config.Problem) bool { return p.Fix == "" && !strings.HasPrefix(p.Code, "expr.") }

// TestProblemsHaveFixes: so does every problem that a story of the loader shows.
func TestProblemsHaveFixes(t *testing.T) {
	shown := 0
	for _, pattern := range []string{"../testdata/load/*", "../*/testdata/*"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, block := range strings.Split(string(b), "\n\n") {
				block = strings.TrimPrefix(block, "----\n----\n")
				head, _, _ := strings.Cut(block, "\n")
				kind, rest, _ := strings.Cut(head, " ")
				if code, _, ok := strings.Cut(rest, " "); !ok || kind != "error" && kind != "warning" || strings.HasPrefix(code, "expr.") {
					continue
				}
				if shown++; !strings.Contains(block, "\n  -> ") {
					t.Errorf("%s: %s", name, block)
				}
			}
		}
	}
	if shown < 100 {
		t.Errorf("only %d problems were found", shown)
	}
}

// mistakes makes one mistake after the other in a group, tells each with the number of
// problems that it makes at least, and takes it back.
func mistakes(g yaml.MapSlice, path string, names bool, tell func(what string, least int)) {
	for i := range g {
		key, value := fmt.Sprint(g[i].Key), g[i].Value
		at := path + "." + key
		if !names {
			g[i].Key = key + key[len(key)-1:]
			tell(at+" misspelt", 1)
			g[i].Key = key
			g[i].Value = []any{[]any{1}}
			tell(at+" of another kind", 1)
			g[i].Value = value
		}
		switch v := value.(type) {
		case string:
			if !names {
				g[i].Value = v + "x"
				tell(fmt.Sprintf("%s: %sx", at, v), 0)
				g[i].Value = value
			}
		case yaml.MapSlice:
			mistakes(v, at, named[key] && !names || strings.Contains(at, ".offsets"), tell)
		case []any:
			for j, e := range v {
				if s, ok := e.(string); ok {
					v[j] = s + "x"
					tell(fmt.Sprintf("%s[%d]: %sx", at, j, s), 0)
					v[j] = e
				}
			}
		}
	}
}
