package config

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Expr is an expression of the file. Factories compile it with [Component.Compile].
type Expr string

// Duration is a length of time, written as 10s, 1h30m or 90d.
type Duration time.Duration

// Std returns the duration as Go's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

var dayPart = regexp.MustCompile(`^(\d+(?:\.\d+)?)d(.*)$`)

const day = 24 * time.Hour

// ParseDuration reads what Duration.String writes, and everything
// time.ParseDuration reads. A number without a unit is an error.
func ParseDuration(s string) (Duration, error) {
	if _, err := strconv.ParseFloat(s, 64); err == nil && s != "0" {
		return 0, fmt.Errorf("%q has no unit", s)
	}
	sign, rest, days := time.Duration(1), s, time.Duration(0)
	if strings.HasPrefix(rest, "-") {
		sign, rest = -1, rest[1:]
	}
	if m := dayPart.FindStringSubmatch(rest); m != nil {
		n, err := strconv.ParseFloat(m[1], 64)
		if err != nil || n > float64(math.MaxInt64/int64(day)) {
			return 0, fmt.Errorf("%q is too long", s)
		}
		days, rest = time.Duration(n*float64(day)), m[2]
	}
	if rest == "" {
		return Duration(sign * days), nil
	}
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 || strings.ContainsAny(rest, "-+") {
		return 0, fmt.Errorf("%q is not a duration", s)
	}
	if days > math.MaxInt64-d {
		return 0, fmt.Errorf("%q is too long", s)
	}
	return Duration(sign * (days + d)), nil
}

// String returns the shortest form: 10s, 1h30m, 90d.
func (d Duration) String() string {
	v := time.Duration(d)
	if v != 0 && v%day == 0 {
		return strconv.FormatInt(int64(v/day), 10) + "d"
	}
	s := v.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalText returns String.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// Size is a number of bytes, written as 64MiB, 10MB or 512B.
type Size int64

var units = []struct {
	name  string
	bytes int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"KB", 1e3}, {"B", 1},
}

// ParseSize reads a number with a unit.
func ParseSize(s string) (Size, error) {
	for _, u := range units {
		text, ok := strings.CutSuffix(s, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
			break
		}
		if n*float64(u.bytes) >= math.MaxInt64 || n < 0 {
			return 0, fmt.Errorf("%q is out of range", s)
		}
		return Size(n * float64(u.bytes)), nil
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return 0, fmt.Errorf("%q has no unit", s)
	}
	return 0, fmt.Errorf("%q is not a size", s)
}

// String returns the size in the largest unit that divides it.
func (s Size) String() string {
	for _, u := range units[:4] {
		if s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// MarshalText returns String.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Map is a group of keys in the order of the file.
type Map[T any] []Pair[T]

// Pair is one key of a Map.
type Pair[T any] struct {
	Key   string
	Value T
}

// Get returns the value of a key.
func (m Map[T]) Get(key string) (v T, ok bool) {
	for _, p := range m {
		if p.Key == key {
			return p.Value, true
		}
	}
	return v, false
}

// Keys returns the keys in the order of the file.
func (m Map[T]) Keys() []string {
	out := make([]string, len(m))
	for i, p := range m {
		out[i] = p.Key
	}
	return out
}

func (m Map[T]) ordered() {}

// orderedMap is what the decoder knows a Map by.
type orderedMap interface{ ordered() }
