package config

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestBig: a hostile file costs seconds at most, of the processor: a busy machine makes it
// no worse.
func TestBig(t *testing.T) {
	for name, unit := range map[string]string{
		"lines": "a: b\n", "list": "- x\n", "flow": "[", "flow2": "[]\n", "quotes": `"a`, "comments": "#\n", "anchors": "&a ", "tags": "!a ", "dashes": "- ", "keys": "? ",
		"long": "a", "block": "  a\n", "colons": "a: ", "commas": "{a,", "spaces": " ", "blank": "\n", "alias": "*a ", "dollar": "${", "braces": "x: {a: 1}\n", "esc": `\`, "pipe": "a: |\n", "tabs": "\t\n",
		"merge": "<<: {a: 1}\n", "unique": "",
	} {
		t.Run(name, func(t *testing.T) {
			text := ""
			if unit == "" {
				var b strings.Builder
				for i := 0; b.Len() < min(MaxFile, MaxLines*20)-100; i++ {
					b.WriteString(strings.Repeat("k", 1+i%7) + string(rune('a'+i%26)) + strings.Repeat("z", i%50) + ": 1\n")
				}
				text = b.String()
			} else {
				text = strings.Repeat(unit, MaxFile/len(unit))
			}
			for _, prefix := range []string{"", "x: |\n"} {
				begin := worked(t)
				_, ps := secretLoader().Load("p.yaml", []byte(prefix+text[:len(text)-len(prefix)]))
				took := worked(t) - begin
				if took > 20*time.Second || len(ps) > maxProblems+1 {
					t.Errorf("%q: %v, %d problems", prefix, took, len(ps))
				}
			}
		})
	}
}

// worked is the processor time that this program has taken.
func worked(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
