package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestKindFollowsFromWhatIsLinked(t *testing.T) {
	for _, c := range []struct {
		pkg, want string
		links     []string
	}{
		{"etl/stream", "unit", []string{"fmt"}},
		{"etl/checkpoint", "scenarios", []string{"github.com/cockroachdb/datadriven"}},
		{"etl/demo", "kfake", []string{"github.com/cockroachdb/datadriven", "github.com/twmb/franz-go/pkg/kfake"}},
		{"etl/sink/kafkatxn", "real", []string{"github.com/twmb/franz-go/pkg/kfake", "etl/internal/kafkatest [etl/sink/kafkatxn.test]"}},
		{"etl/internal/simtest", "simulation", []string{"github.com/twmb/franz-go/pkg/kfake"}},
		{"etl/internal/kafkatest", "services", []string{"fmt"}},
		{"etl/internal/redistest", "services", []string{"fmt"}},
		{"etl/sink/idempotent/redis", "real", []string{"etl/internal/redistest [etl/sink/idempotent/redis.test]"}},
		{"etl/integration/torture", "torture", []string{"etl/internal/kafkatest"}},
		{"etl/integration", "promises", []string{"etl/internal/kafkatest"}},
	} {
		if got := kindOf(c.pkg, c.links); got != c.want {
			t.Errorf("%s is %q, want %q", c.pkg, got, c.want)
		}
	}
}

// Every kind is run by a tier of the group "test", except those that are run elsewhere.
func TestEveryKindIsRun(t *testing.T) {
	elsewhere := map[string]bool{"lint": true, "bench": true} // scripts/lint.sh; make bench
	for _, k := range kinds {
		found := elsewhere[k.name]
		for _, tier := range tiers {
			for _, name := range tier.kinds {
				found = found || tier.group == "test" && name == k.name
			}
		}
		if !found {
			t.Errorf("no tier runs the packages of kind %q", k.name)
		}
	}
}

// What is slow is named by its test: a new name must not take it out of its tier, and a
// new switch not stay without one.
func TestSlowTestsAreThere(t *testing.T) {
	names := map[string]bool{}
	for _, tier := range tiers {
		for _, pkg := range tier.pkgs {
			files, err := filepath.Glob("../../" + strings.TrimPrefix(pkg, "etl/") + "/*_test.go")
			if err != nil || len(files) == 0 {
				t.Fatalf("%s: %d files, %v", pkg, len(files), err)
			}
			for _, f := range files {
				b, err := os.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(b, -1) {
					names[string(m[1])] = true
				}
			}
		}
	}
	for _, name := range slow {
		if !names[name] {
			t.Errorf("there is no %s", name)
		}
	}
}

func TestSilenceIsNoPass(t *testing.T) {
	pass := `{"Action":"pass","Package":"etl/x","Test":"TestX"}` + "\n"
	skip := `{"Action":"output","Package":"etl/x","Test":"TestY","Output":"TIER SKIPPED real-kafka: no java\n"}` + "\n" +
		`{"Action":"skip","Package":"etl/x","Test":"TestY"}` + "\n"
	sub := `{"Action":"fail","Package":"etl/x","Test":"TestX/sub"}` + "\n"
	for _, c := range []struct{ name, events, want string }{
		{"a pass", pass, "ran"},
		{"nothing", "", "SKIPPED"},
		{"only subtests", sub, "SKIPPED"},
		{"a server was missing", pass + skip, "SKIPPED"},
	} {
		r := result{}
		r.read(strings.NewReader(c.events))
		r.outcome = "ran"
		if r.judge(); r.outcome != c.want {
			t.Errorf("%s: %s, want %s", c.name, r.outcome, c.want)
		}
	}
}

// The events are those of a real run of go test, so that its form is not guessed.
func TestSkippedAndFailedTestsAreNamed(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module skipping\n\ngo 1.26\n",
		"x_test.go": `package skipping

import (
	"fmt"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	m.Run()
	fmt.Println("what was asked for")
	fmt.Println("  ok    kills of workers      120 of 100")
	fmt.Println("  FAIL  kills of brokers        1 of 2")
	os.Exit(1)
}
func TestPass(t *testing.T)  { t.Log("nothing to say") }
func TestWhole(t *testing.T) { t.Log("first"); t.Skip("-short: takes a minute\nand more") }
func TestMute(t *testing.T)  { t.SkipNow() }
func TestParts(t *testing.T) {
	for _, name := range []string{"a", "b", "c/d"} {
		t.Run(name, func(t *testing.T) { t.Skip("no lock: here") })
	}
	t.Run("e", func(t *testing.T) { t.Skip("of another shard") })
	t.Run("f", func(t *testing.T) {})
}
func TestWrong(t *testing.T) {
	t.Run("g", func(t *testing.T) { t.Run("h", func(t *testing.T) { t.Error("row 3"); t.Log("history") }) })
	t.Run("i", func(t *testing.T) {})
}
func TestTwice(t *testing.T) { t.Error("once") }
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "test", "-json", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	out, err := cmd.Output()
	if exit := new(exec.ExitError); !errors.As(err, &exit) {
		t.Fatalf("the tests should have failed: %v: %s", err, out)
	}
	r := result{}
	r.read(strings.NewReader(string(out)))
	var got []string
	for _, s := range r.found.all {
		got = append(got, s.String())
	}
	slices.Sort(got)
	want := []string{
		"failed in skipping TestWrong (g/h): row 3 ... history",
		"failed skipping TestTwice: once",
		"failed skipping as a whole: FAIL kills of brokers 1 of 2",
		"skipped in skipping TestParts (a, b, c/d): no lock: here",
		"skipped in skipping TestParts (e): of another shard",
		"skipped skipping TestMute: no reason given",
		"skipped skipping TestWhole: -short: takes a minute",
	}
	if !slices.Equal(got, want) {
		t.Errorf("named:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if r.passed != 2 || r.skipped != 2 || r.failed != 2 {
		t.Errorf("%d passed, %d skipped, %d failed; want 2 of each", r.passed, r.skipped, r.failed)
	}
}
