package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

const canary = "hunter2"

func TestSecretNeverPrints(t *testing.T) {
	s := struct {
		A Secret
		B *Secret
		C map[string]Secret
		D any
	}{A: NewSecret(canary), C: map[string]Secret{"x": NewSecret(canary)}, D: NewSecret(canary)}
	s.B = &s.A
	var out []string
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%10s", "%U"} {
		out = append(out, fmt.Sprintf(verb, s), fmt.Sprintf(verb, s.A), fmt.Sprintf(verb, s.B), fmt.Sprintf(verb, s.D))
	}
	j, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	y, err := yaml.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secret", s.A, "all", s, "error", fmt.Errorf("bad %v", s.A))
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "secret", s.A, "all", s)
	out = append(out, string(j), string(y), log.String(), fmt.Sprint(fmt.Errorf("wrapped: %w", fmt.Errorf("%v", s))))
	for _, o := range out {
		if strings.Contains(o, canary) || strings.Contains(strings.ToLower(o), fmt.Sprintf("%x", canary)) {
			t.Errorf("%s", o)
		}
	}
	if s.A.Reveal() != canary || !(Secret{}).IsZero() || (Secret{}).String() != "" {
		t.Error("the value is gone, or nothing is not empty")
	}
}

// secretFile has a secret in every place a file can have one.
const secretFile = `name: x
connections:
  main:
    type: kafka
    seed_brokers: [a:1]
    sasl:
      mechanism: PLAIN
      username: u
      password: hunter2
  fromfile:
    type: kafka
    seed_brokers: [a:1]
    sasl: { mechanism: PLAIN, username: u, password: "${file:/run/secret}" }
  fromenv:
    type: kafka
    seed_brokers: [a:1]
    sasl: { mechanism: PLAIN, username: u, password: "${SECRET}" }
  block:
    type: kafka
    seed_brokers: [a:1]
    sasl:
      mechanism: PLAIN
      password: |
        hunter2
        hunter2
sources:
  in: { type: kafka, connection: main, topics: [t] }
sinks:
  out: { type: kafka, inputs: [in], connection: main, topic: u }
`

func secretLoader() *Loader {
	return &Loader{Registry: fakeRegistry(), DataDir: "/data", Outside: fakeOutside(map[string]string{"SECRET": canary},
		map[string]fakeFile{"/run/secret": {canary + "\n", 0o400}, "/run/open": {canary, 0o444}})}
}

// TestCanary breaks the file in every line and looks for the secret in all that is
// ever printed of it.
func TestCanary(t *testing.T) {
	job, ps := secretLoader().Load("p.yaml", []byte(secretFile))
	if job == nil {
		t.Fatal(ps)
	}
	for _, c := range job.build().connections {
		if !strings.Contains(c.spec.(*fakeConnection).SASL.Password.Reveal(), canary) {
			t.Errorf("%s has no secret to give away", c.Name)
		}
	}
	check(t, "whole", job, ps)
	lines := strings.SplitAfter(secretFile, "\n")
	for i, line := range lines {
		if strings.TrimSpace(line) == "" {
			continue
		}
		for name, l := range map[string]string{
			"without": "", "twice": line + line, "tab": "\t" + line, "indented": "  " + line, "outdented": strings.TrimLeft(line, " "),
			"unclosed": strings.Replace(line, ": ", ": \"", 1), "list": strings.Replace(line, ": ", ": - ", 1), "key": strings.Replace(line, ":", "x:", 1),
			"open": strings.Replace(line, "secret", "open", 1), "bracket": strings.Replace(line, ": ", ": [", 1), "number": strings.Replace(line, "u\n", "7\n", 1),
		} {
			text := strings.Join(lines[:i], "") + l + strings.Join(lines[i+1:], "")
			job, ps := secretLoader().Load("p.yaml", []byte(text))
			check(t, fmt.Sprintf("%s %q", name, line), job, ps)
		}
	}
}

func check(t *testing.T, name string, job *Job, ps Problems) {
	t.Helper()
	var out bytes.Buffer
	_ = ps.Render(&out, Style{Color: true})
	_ = json.NewEncoder(&out).Encode(ps)
	fmt.Fprintf(&out, "%v %+v %s", ps, ps, ps.Error())
	if job != nil {
		plan := job.Plan(nil, time.Time{})
		_ = plan.Render(&out, Style{})
		_ = json.NewEncoder(&out).Encode(plan)
		_ = json.NewEncoder(&out).Encode(job.EffectiveMap())
		out.Write(job.Effective())
		out.WriteString(job.ConfigHash)
		for _, c := range job.all() {
			fmt.Fprintf(&out, "%+v %#v", c.spec, c.spec)
		}
	}
	if i := strings.Index(out.String(), canary); i >= 0 {
		t.Errorf("%s: the secret is printed: %s", name, out.String()[max(0, i-200):min(i+50, out.Len())])
	}
}

func TestHashIgnoresSecrets(t *testing.T) {
	load := func(text string) *Job {
		job, ps := secretLoader().Load("p.yaml", []byte(text))
		if job == nil {
			t.Fatal(ps)
		}
		return job
	}
	a, b := load(secretFile), load(strings.ReplaceAll(secretFile, "password: hunter2", "password: other"))
	c, d := load(secretFile+"parallelism: 2\n"), load("# comment\n"+secretFile+"checkpoint: { interval: 10s }\n")
	if a.ConfigHash != b.ConfigHash || a.ConfigHash == c.ConfigHash || a.ConfigHash != d.ConfigHash || len(a.ConfigHash) != 32 {
		t.Errorf("%s %s %s %s", a.ConfigHash, b.ConfigHash, c.ConfigHash, d.ConfigHash)
	}
}

// TestRealOutside reads the process's own environment and files.
func TestRealOutside(t *testing.T) {
	dir := t.TempDir()
	name := dir + "/secret"
	if err := os.WriteFile(name, []byte("value\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ETL_TEST_TOPIC", "from-env")
	text := strings.ReplaceAll(strings.ReplaceAll(secretFile, "/run/secret", name), "${SECRET}", "${ETL_TEST_TOPIC}")
	job, ps := (&Loader{Registry: fakeRegistry(), DataDir: dir}).Load("p.yaml", []byte(text))
	if job == nil {
		t.Fatal(ps)
	}
	if got := job.build().connections["fromfile"].spec.(*fakeConnection).SASL.Password.Reveal(); got != "value" {
		t.Errorf("secret %q", got)
	}
	if d, ok := device(dir + "/not/there/yet"); !ok || d == 0 {
		t.Errorf("device %d, %v", d, ok)
	}
}
