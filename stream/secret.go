package stream

import (
	"fmt"
	"log/slog"
)

// Secret is a string that prints as *** in every form. Reveal returns the value.
type Secret string

const hidden = "***"

// Reveal returns the value, for the one place that sends it.
func (s Secret) Reveal() string { return string(s) }

// String hides the value.
func (s Secret) String() string { return hidden }

// Format hides the value whatever the verb: fmt prints what a wrong one was given.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, hidden) }

// MarshalText hides the value in JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// LogValue hides the value in logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(hidden) }
