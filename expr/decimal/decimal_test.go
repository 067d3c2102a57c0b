package decimal

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestText(t *testing.T) {
	for _, c := range []struct{ in, kept, canonical string }{
		{"0", "0", "0"},
		{"-0", "0", "0"},
		{"-0.0", "0.0", "0"},
		{"0e500", "0", "0"},
		{"1", "1", "1"},
		{"1.0", "1.0", "1"},
		{"1e0", "1", "1"},
		{"1E+3", "1000", "1000"},
		{"12.50", "12.50", "12.5"},
		{"-0.001", "-0.001", "-0.001"},
		{"1e-41", "1e-41", "1e-41"},
		{"9007199254740993", "9007199254740993", "9007199254740993"},
		{"9223372036854775807", "9223372036854775807", "9223372036854775807"},
		{"-9223372036854775808", "-9223372036854775808", "-9223372036854775808"},
		{"9223372036854775808", "9223372036854775808", "9223372036854775808"},
		{"100000000000000000000", "100000000000000000000", "100000000000000000000"},
		{"1e20", "100000000000000000000", "100000000000000000000"},
		{"1e40", "1e40", "1e40"},
		{"1" + strings.Repeat("0", 40), "1" + strings.Repeat("0", 0) + "." + strings.Repeat("0", 40) + "e40", "1e40"},
		{"123456789012345678901234567890.12345", "123456789012345678901234567890.12345", "123456789012345678901234567890.12345"},
	} {
		x, ok := Parse(c.in)
		if kept := x.String(); !ok || kept != c.kept {
			t.Errorf("%s: kept as %s, want %s", c.in, kept, c.kept)
		}
		if canonical := string(x.AppendCanonical(nil)); canonical != c.canonical {
			t.Errorf("%s: canonical %s, want %s", c.in, canonical, c.canonical)
		}
	}
	for _, bad := range []string{"", "-", "01", "-01", "1.", ".5", "1e", "1e+", "+1", "nan", "Infinity", "0x1", "1_0", " 1", "1e1001", "1e-1001", strings.Repeat("9", 1001)} {
		if x, ok := Parse(bad); ok {
			t.Errorf("%q read as %s", bad, x)
		}
	}
}

func TestArithmetic(t *testing.T) {
	for _, c := range []struct{ x, op, y, want string }{
		{"0.1", "+", "0.2", "0.3"},
		{"10.50", "*", "2", "21.00"},
		{"10.0", "+", "5", "15.0"},
		{"9223372036854775807", "+", "1", "9223372036854775808"},
		{"-9223372036854775808", "-", "1", "-9223372036854775809"},
		{"9223372036854775807", "*", "9223372036854775807", "85070591730234615847396907784232501249"},
		{"9223372036854775808", "-", "1", "9223372036854775807"},
		{"1e999", "*", "10", "ErrRange"},
		{"1", "/", "4", "0.25"},
		{"10", "/", "5", "2"},
		{"1", "/", "3", "0.3333333333333333333333333333333333"},
		{"2", "/", "3", "0.6666666666666666666666666666666667"},
		{"1", "/", "0.0", "ErrDivideByZero"},
		{"-9223372036854775808", "/", "-1", "9223372036854775808"},
		{"-7", "%", "3", "-1"},
		{"-9223372036854775808", "%", "-1", "0"},
		{"7", "%", "0", "ErrDivideByZero"},
		{"7.5", "%", "2", "ErrNotInt"},
		{"2", "^", "10", "1024"},
		{"1.5", "^", "2", "2.25"},
		{"2", "^", "-1", "ErrNotInt"},
		{"10", "^", "1000000000", "ErrRange"},
	} {
		if got := run(c.x, c.op, c.y); got != c.want {
			t.Errorf("%s %s %s = %s, want %s", c.x, c.op, c.y, got, c.want)
		}
	}
}

func run(xs, op, ys string) string {
	x, _ := Parse(xs)
	y, _ := Parse(ys)
	f := map[string]func(x, y Number) (Number, error){"+": Add, "-": Sub, "*": Mul, "/": Quo, "%": Rem, "^": Pow}[op]
	z, err := f(x, y)
	switch err {
	case nil:
		return z.String()
	case ErrRange:
		return "ErrRange"
	case ErrDivideByZero:
		return "ErrDivideByZero"
	}
	return "ErrNotInt"
}

func TestRounding(t *testing.T) {
	for in, want := range map[string]string{ // floor ceil round trunc
		"2.5":                    "2 3 3 2",
		"-2.5":                   "-3 -2 -3 -2",
		"2.4":                    "2 3 2 2",
		"7":                      "7 7 7 7",
		"0.001":                  "0 1 0 0",
		"1e30":                   "1" + strings.Repeat("0", 30) + strings.Repeat(" 1"+strings.Repeat("0", 30), 3),
		"12345678901234567890.5": "12345678901234567890 12345678901234567891 12345678901234567891 12345678901234567890",
	} {
		x, _ := Parse(in)
		if got := fmt.Sprint(x.Floor(), x.Ceil(), x.Round(), x.Trunc()); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// literal draws numbers near every border: small, 64 bits, beyond, fractions.
func literal(t *rapid.T, label string) string {
	return rapid.OneOf(
		rapid.StringMatching(`-?(0|[1-9][0-9]{0,3})(\.[0-9]{1,3})?`),
		rapid.StringMatching(`-?(922337203685477580[0-9]|[1-9][0-9]{17,21})(\.[0-9]{1,20})?`),
		rapid.StringMatching(`-?[1-9](\.[0-9]{1,5})?[eE][+-]?[0-9]{1,2}`),
	).Draw(t, label)
}

func rat(t *rapid.T, s string) *big.Rat {
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		t.Fatalf("oracle cannot read %s", s)
	}
	return r
}

// TestAgainstRationals holds the inline and the apd way against math/big.
func TestAgainstRationals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		xs, ys := literal(t, "x"), literal(t, "y")
		x, ok1 := Parse(xs)
		y, ok2 := Parse(ys)
		if !ok1 || !ok2 {
			t.Fatalf("cannot read %s, %s", xs, ys)
		}
		a, b := rat(t, xs), rat(t, ys)
		sum, _ := Add(x, y)
		diff, _ := Sub(x, y)
		prod, _ := Mul(x, y)
		same(t, sum, new(big.Rat).Add(a, b))
		same(t, diff, new(big.Rat).Sub(a, b))
		same(t, prod, new(big.Rat).Mul(a, b))
		same(t, Neg(x), new(big.Rat).Neg(a))
		if Cmp(x, y) != a.Cmp(b) || Cmp(diff, Number{}) != diff.Sign() {
			t.Fatalf("Cmp(%s, %s)", xs, ys)
		}
		if eq := string(x.AppendCanonical(nil)) == string(y.AppendCanonical(nil)); eq != (a.Cmp(b) == 0) {
			t.Fatalf("canonical forms of %s and %s", xs, ys)
		}
		if n, ok := x.Int64(); ok != (a.IsInt() && a.Num().IsInt64()) || ok && n != a.Num().Int64() {
			t.Fatalf("Int64(%s) = %d, %v", xs, n, ok)
		}
	})
}

func same(t *rapid.T, x Number, want *big.Rat) {
	text := x.String()
	if !json.Valid([]byte(text)) || rat(t, text).Cmp(want) != 0 {
		t.Fatalf("got %s, want %s", text, want)
	}
	back, ok := Parse(text)
	if !ok || Cmp(back, x) != 0 || back.String() != text {
		t.Fatalf("%s reads back as %s", text, back)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"1.50", "-0", "1e3", "9223372036854775808", "01", "."} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		x, ok := Parse(s)
		if ok && (!json.Valid([]byte(s)) || !json.Valid(x.Append(nil))) {
			t.Fatalf("%q read as %s", s, x)
		}
	})
}

func BenchmarkMulText(b *testing.B) {
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		x, _ := Parse("12.50")
		y, _ := Parse("3")
		z, _ := Mul(x, y)
		buf = z.Append(buf[:0])
	}
}
