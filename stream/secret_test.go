package stream

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// A secret shows itself in no form, nor does what holds it, nor under a verb that is wrong.
func TestSecretIsHidden(t *testing.T) {
	s := Secret("hunter2")
	holder := struct{ Password Secret }{s}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%t", "%08.3f", "%c"} {
		for _, x := range []any{s, &s, holder, []Secret{s}, map[Secret]Secret{s: s}} {
			if text := fmt.Sprintf(verb, x); strings.Contains(text, "hunter2") || strings.Contains(text, "68756e74657232") {
				t.Errorf("%s shows %s", verb, text)
			}
		}
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "password", s, "holder", holder)
	text, err := json.Marshal(map[string]any{"one": s, "holder": holder})
	if err != nil || strings.Contains(string(text)+log.String(), "hunter2") {
		t.Errorf("%s %s %v", text, log.String(), err)
	}
	if s.Reveal() != "hunter2" {
		t.Error("it is lost")
	}
}
