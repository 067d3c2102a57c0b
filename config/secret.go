package config

import (
	"fmt"
	"log/slog"
)

// Secret is a value of the file that must never be shown: in every form of
// printing, marshalling and logging it is "***", or "" when it is empty. Only
// Reveal returns it.
type Secret struct{ value string }

// NewSecret returns a secret with the value.
func NewSecret(value string) Secret { return Secret{value} }

// Reveal returns the value, for the one place that sends it to a server.
func (s Secret) Reveal() string { return s.value }

// IsZero reports whether there is no value.
func (s Secret) IsZero() bool { return s.value == "" }

// String returns "***".
func (s Secret) String() string {
	if s.value == "" {
		return ""
	}
	return hidden
}

// Format prints "***" under every verb, so that no %x or %#v leads around it.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

// GoString returns "***".
func (s Secret) GoString() string { return s.String() }

// MarshalText returns "***"; JSON and YAML use it.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue returns "***".
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
