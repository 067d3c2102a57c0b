package kafka_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/cockroachdb/datadriven" // its flag -rewrite
	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"etl/config"
	"etl/config/configtest"
	"etl/config/file"
	"etl/config/http"
	"etl/config/kafka"
	"etl/config/postgres"
	"etl/config/redis"
)

func loader() *config.Loader {
	r := config.NewRegistry()
	kafka.Register(r, kafka.Options{})
	postgres.Register(r, postgres.Options{})
	file.Register(r, file.Options{})
	redis.Register(r)
	http.Register(r)
	return &config.Loader{Registry: r, DataDir: "/data", Outside: config.Outside{
		LookupEnv: func(name string) (string, bool) { return "secret", name == "KAFKA_PASSWORD" },
		Device:    configtest.Device,
	}}
}

// documents returns every pipeline file of the repository: the examples, and the
// blocks of yaml in the documentation that begin with a name.
func documents(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, pattern := range []string{"../../examples/*/pipeline.yaml", "../../docs/*.md", "../../*.md", "../../examples/*/README.md"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(name, ".yaml") {
				out[name] = string(b)
				continue
			}
			for i, block := range strings.Split(string(b), "```yaml\n")[1:] {
				text, _, _ := strings.Cut(block, "```")
				out[fmt.Sprintf("%s block %d", name, i+1)] = text
			}
		}
	}
	return out
}

// TestDocuments: every example and every snippet is accepted without a warning, and
// is valid under the schema that editors use.
func TestDocuments(t *testing.T) {
	schema := compileSchema(t)
	for name, text := range documents(t) {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(text, "\nname:") && !strings.HasPrefix(text, "name:") {
				text = complete(text)
			}
			job, ps := loader().Load(name, []byte(text))
			if len(ps) > 0 {
				var b bytes.Buffer
				if err := ps.Render(&b, config.Style{}); err != nil {
					t.Fatal(err)
				}
				t.Fatalf("%s\n%s", b.String(), text)
			}
			if err := schema.Validate(asJSON(t, []byte(text))); err != nil {
				t.Errorf("the schema refuses it: %v", err)
			}
			if err := schema.Validate(asJSON(t, job.Effective())); err != nil {
				t.Errorf("the schema refuses its effective form: %v", err)
			}
			if _, err := json.Marshal(job.Plan(nil, time.Time{})); err != nil {
				t.Error(err)
			}
		})
	}
}

// complete adds to a snippet what it leaves out.
func complete(text string) string {
	for _, part := range []struct{ key, text string }{
		{"name:", "name: snippet\n"},
		{"connections:", "connections:\n  main: { type: kafka, seed_brokers: [\"localhost:9092\"] }\n"},
		{"sources:", "sources:\n  in: { type: kafka, connection: main, topics: [in] }\n"},
		{"sinks:", "sinks:\n  snippet_out: { type: kafka, inputs: [in], connection: main, topic: out }\n"},
	} {
		if !strings.Contains("\n"+text, "\n"+part.key) {
			text += part.text
		}
	}
	return text
}

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(config.Schema(loader().Registry)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("etl.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("etl.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func asJSON(t *testing.T, text []byte) any {
	t.Helper()
	b, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestSchemaRefuses: what the loader calls an unknown key or a wrong type, an editor
// marks as well.
func TestSchemaRefuses(t *testing.T) {
	refuses(t, "user-behavior", map[string]string{
		"interval: 10s":             "intervall: 10s",
		"retain: 5":                 "retain: 1",
		"timeout: 2m":               "timeout: 2 minutes",
		"type: filter":              "type: fliter",
		"op: sum":                   "op: median",
		"topics: [shop.behavior]":   "topics: []",
		"isolation: read_committed": "isolation: committed",
		"parallelism: 2":            "parallelism: two",
		"name: user-behavior\n":     "",
		"compression: lz4":          "compression: 4",
	})
	refuses(t, "user-counts-postgres", map[string]string{
		"mode: upsert":               "mode: merge",
		"delivery: two_phase":        "delivery: two_phase\n    strategy: 2pc",
		"key: [user_id]":             "key: {}",
		"table: user_counts":         "tabel: user_counts",
		"connection: reports":        "connection: [reports]",
		"dsn: ${PG_DSN:-}          ": "dsn: { host: localhost }",
	})
}

func refuses(t *testing.T, example string, changes map[string]string) {
	t.Helper()
	schema := compileSchema(t)
	good, err := os.ReadFile("../../examples/" + example + "/pipeline.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for old, new := range changes {
		bad := strings.Replace(string(good), old, new, 1)
		if bad == string(good) {
			t.Fatalf("%q is not in the example", old)
		}
		if _, ps := loader().Load("p.yaml", []byte(bad)); !ps.Failed() {
			t.Errorf("the loader accepts %q", new)
		}
		if schema.Validate(asJSON(t, []byte(bad))) == nil {
			t.Errorf("the schema accepts %q", new)
		}
	}
}

// TestReference keeps the tables of docs/pipeline-file.md as the code has them.
func TestReference(t *testing.T) {
	const name = "../../docs/pipeline-file.md"
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(b), "TestReference -rewrite -->\n")
	_, tail, ok2 := strings.Cut(rest, "<!-- end -->")
	if !ok || !ok2 {
		t.Fatal("the marks of the generated part are gone")
	}
	want := head + "TestReference -rewrite -->\n\n" + config.Reference(loader().Registry) + "<!-- end -->" + tail
	if want == string(b) {
		return
	}
	if f := flag.Lookup("rewrite"); f == nil || f.Value.String() != "true" {
		t.Fatalf("%s is not what the code says: run go test ./config/kafka -run TestReference -rewrite", name)
	}
	if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
