package file

import (
	"fmt"
	"regexp"
	"strconv"
)

// Column is a column of csv and parquet files.
type Column struct {
	Name string
	// Type matters to parquet; csv writes every value as text.
	Type Type
}

// TypeKind is what a column of a Parquet file holds. Every column takes null.
type TypeKind string

// The kinds. Anything that does not fit is rejected; nothing is rounded but what goes
// into a double.
const (
	Boolean   TypeKind = "boolean"
	Int64     TypeKind = "int64"
	Double    TypeKind = "double"
	Decimal   TypeKind = "decimal" // decimal(precision, scale), at most 18 digits
	String    TypeKind = "string"
	JSONText  TypeKind = "json"
	Timestamp TypeKind = "timestamp" // microseconds, UTC: from RFC 3339 text, or milliseconds since 1970
	Date      TypeKind = "date"      // from text such as 2026-11-29
)

// Type is the type of a column.
type Type struct {
	Kind TypeKind
	// Precision and Scale are those of a decimal.
	Precision, Scale int
}

var typeForm = regexp.MustCompile(`^([a-z0-9]+)(?:\(\s*(\d+)\s*,\s*(\d+)\s*\))?$`)

// ParseType reads a type as the pipeline file words it: int64, decimal(12,2).
func ParseType(s string) (t Type, err error) {
	m := typeForm.FindStringSubmatch(s)
	if m == nil {
		return t, fmt.Errorf("%q is no type", s)
	}
	t.Kind = TypeKind(m[1])
	if m[2] != "" {
		t.Precision, _ = strconv.Atoi(m[2])
		t.Scale, _ = strconv.Atoi(m[3])
	}
	return t, t.check()
}

// String returns what ParseType reads.
func (t Type) String() string {
	if t.Kind == Decimal {
		return fmt.Sprintf("decimal(%d,%d)", t.Precision, t.Scale)
	}
	return string(t.Kind)
}

// maxPrecision is that of decimals in 64 bits.
const maxPrecision = 18

func (t Type) check() error {
	switch t.Kind {
	case Boolean, Int64, Double, String, JSONText, Timestamp, Date:
		if t.Precision != 0 || t.Scale != 0 {
			return fmt.Errorf("%s takes no precision", t.Kind)
		}
		return nil
	case Decimal:
		if t.Precision < 1 || t.Precision > maxPrecision || t.Scale > t.Precision {
			return fmt.Errorf("decimal(%d,%d): the precision is 1 to %d, and the scale not more", t.Precision, t.Scale, maxPrecision)
		}
		return nil
	}
	return fmt.Errorf("type %q is not boolean, int64, double, decimal(precision, scale), string, json, timestamp or date", t.Kind)
}
