package verify

import "testing"

// Values that are equal to a type have one form, and others another one.
func TestForms(t *testing.T) {
	for _, c := range []struct {
		typ, a, b string
		equal     bool
	}{
		{"numeric", `1.50`, `15e-1`, true},
		{"numeric", `0.1`, `0.10000000000000000001`, false},
		{"bigint", `9007199254740993`, `9007199254740992`, false},
		{"text", `"é/\""`, `"\u00e9\/\u0022"`, true},
		{"text", `""`, `" "`, false},
		{"uuid", `"{A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11}"`, `"a0eebc999c0b4ef8bb6d6bb9bd380a11"`, true},
		{"real", `0.1`, `0.100000001`, true},
		{"double precision", `0.1`, `0.100000001`, false},
		{"timestamp with time zone", `"2026-01-01T00:00:00Z"`, `"2026-01-01 02:00:00+02"`, true},
		{"timestamp with time zone", `1000`, `"1970-01-01T00:00:01Z"`, true},
		{"timestamp with time zone", `"2026-01-01T00:00:00.0000014Z"`, `"2026-01-01T00:00:00.000001Z"`, true},
		{"timestamp with time zone", `"2026-01-01T00:00:00.0000016Z"`, `"2026-01-01T00:00:00.000001Z"`, false},
		{"timestamp without time zone", `"2026-01-01T00:00:00"`, `"2026-01-01 00:00:00.0"`, true},
		{"jsonb", `{"a":[1.0,{}],"b":"x"}`, ` {"b" : "\u0078", "a": [1, { } ]}`, true},
		{"jsonb", `{"a":1,"a":2}`, `{"a":2}`, true},
		{"jsonb", `{"a":1,"a":2}`, `{"a":1}`, false},
		{"jsonb", `[1,2]`, `[2,1]`, false},
		{"jsonb", `[1,null]`, `[1]`, false},
		{"jsonb", `{"a":null}`, `{}`, false},
		{"jsonb", `"1"`, `1`, false},
	} {
		a, errA := forms[c.typ](nil, []byte(c.a))
		b, errB := forms[c.typ](nil, []byte(c.b))
		if errA != nil || errB != nil || (string(a) == string(b)) != c.equal {
			t.Errorf("%s: %s gives %s (%v), %s gives %s (%v)", c.typ, c.a, a, errA, c.b, b, errB)
		}
	}
	for typ, bad := range map[string]string{"boolean": `1`, "integer": `"1"`, "text": `1`, "uuid": `1`, "real": `"1"`, "date": `"2026-02-30"`, "timestamp with time zone": `"2026-01-01T00:00:00"`, "jsonb": `{`} {
		if out, err := forms[typ](nil, []byte(bad)); err == nil {
			t.Errorf("%s takes %s as %s", typ, bad, out)
		}
	}
}
