package verify

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"etl/expr/jsondoc"
	"etl/stream"
)

// EndpointSink is what a sink that sends rows to an endpoint has beyond Sink. An endpoint
// cannot be asked what it has. Where it writes that down, one document of JSON a line, the
// files are compared; without them the sink is left out, and the result says so.
type EndpointSink struct {
	// Received are the files of what the endpoint took, or patterns of their names.
	Received []string
	// PutAside are those of rows that the endpoint refused and the sink put aside: each row
	// has to be in the one or the other.
	PutAside []string
}

// endpointTarget is what an endpoint received, in files.
type endpointTarget struct {
	spec  *EndpointSink
	by    string
	files []string
	aside int64
	rows  []receivedRow
}

// receivedRow is a line of a file.
type receivedRow struct {
	value    []byte
	at, line int64 // among files, and from 1 in it
	count    int64 // in the field by
}

// compileEndpoint compiles what such a sink has.
func (s *sinkPlan) compileEndpoint(t *target) {
	t.place = &endpointTarget{spec: s.spec.Endpoint}
	t.res.repeats = true
	s.rows = &endpointRows{}
}

func (e *endpointTarget) compared() string {
	return "what each row says, and that it is there"
}

func (e *endpointTarget) unordered() string {
	return "an endpoint need not write rows down as they came"
}

func (e *endpointTarget) sortBy(field string) { e.by = field }

func (e *endpointTarget) read(ctx context.Context, c *recounting, t *target) error {
	e.files, e.rows, e.aside = nil, nil, 0
	if err := e.readReceived(ctx, c, t); err != nil {
		return err
	}
	if err := e.readAside(ctx); err != nil {
		return err
	}
	if e.by != "" {
		slices.SortStableFunc(e.rows, func(a, b receivedRow) int { return cmp.Compare(a.count, b.count) })
		e.once(c.r, t)
	}
	t.sums = make([]uint64, 1)
	for _, r := range e.rows {
		t.addDocument(r.value, nil, 0, packedPlace(r.at, r.line))
	}
	e.rows = nil
	c.r.RecordsOut += t.res.Rows
	c.r.checked("%s: what it wrote down in %d files, and %s rows that it refused and the sink put aside: %s rows", t.topic, len(e.files), thousands(e.aside), thousands(t.res.Rows))
	return nil
}

// once leaves out rows that came again: of results that show a plain count no two are equal.
func (e *endpointTarget) once(r *Result, t *target) {
	seen := map[string]bool{}
	e.rows = slices.DeleteFunc(e.rows, func(row receivedRow) bool {
		again := seen[string(row.value)]
		if seen[string(row.value)] = true; again {
			r.found(&t.res, 1, Finding{Kind: Duplicated, Topic: t.topic, Offset: packedPlace(row.at, row.line), Why: "the row came before"})
		}
		return again
	})
}

func (e *endpointTarget) readReceived(ctx context.Context, c *recounting, t *target) error {
	names, err := matches(e.spec.Received)
	if err != nil {
		return problem("received", t.topic, "%w", err)
	}
	if len(names) == 0 {
		return stream.Errorf(stream.BadConfig, "verify.received", "read", t.topic, "no file is named %q", e.spec.Received).
			WithFix("name the files in which the endpoint writes down what it takes")
	}
	for _, name := range names {
		cut, err := e.lines(ctx, name, e.add)
		if err != nil {
			return problem("received", name, "%w", err)
		}
		if cut {
			c.r.notChecked("%s: the last line of %s, which has no end: it is being written", t.topic, name)
		}
	}
	return nil
}

// add takes a row as the endpoint has it. What is no JSON stays as it is, and is equal to
// nothing.
func (e *endpointTarget) add(line int64, raw []byte) error {
	value, err := documentForm(nil, raw)
	if err != nil {
		value = slices.Clone(raw)
	}
	r := receivedRow{value: value, at: int64(len(e.files) - 1), line: line}
	var doc jsondoc.Doc
	if e.by != "" && doc.Parse(value, jsondoc.Lenient) == nil {
		if n, ok := doc.Field(0, e.by); ok {
			r.count, _ = strconv.ParseInt(string(doc.Raw(n)), 10, 64) // 0 is noticed
		}
	}
	e.rows = append(e.rows, r)
	return nil
}

var errNotAside = errors.New("a line is no row that a sink put aside")

// readAside reads rows that were put aside. A delivery that was repeated put them aside
// again, under the same keys.
func (e *endpointTarget) readAside(ctx context.Context) error {
	names, err := matches(e.spec.PutAside)
	if err != nil {
		return problem("put_aside", "", "%w", err)
	}
	seen := map[string]bool{}
	for _, name := range names {
		_, err := e.lines(ctx, name, func(line int64, raw []byte) error {
			var l struct {
				Key string          `json:"idempotency_key"`
				Row json.RawMessage `json:"row"`
			}
			if err := json.Unmarshal(raw, &l); err != nil || l.Key == "" || l.Row == nil {
				return errNotAside
			}
			if seen[l.Key] {
				return nil
			}
			seen[l.Key] = true
			e.aside++
			return e.add(line, l.Row)
		})
		if err != nil {
			return problem("put_aside", name, "%w", err)
		}
	}
	return nil
}

// lines calls emit with the lines of a file that are not empty, and reports whether the
// last one has no end; that one is left out unless it is a whole document.
func (e *endpointTarget) lines(ctx context.Context, name string, emit func(line int64, raw []byte) error) (cut bool, err error) {
	h, err := os.Open(name)
	if err != nil {
		return false, err
	}
	defer h.Close()
	e.files = append(e.files, name)
	b := bufio.NewReaderSize(h, 1<<16)
	for n := int64(1); ; n++ {
		raw, err := b.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return false, err
		}
		end := err == io.EOF
		if end && len(raw) > 0 && !json.Valid(raw) {
			return true, nil
		}
		if raw = bytes.TrimSuffix(raw, []byte("\n")); len(raw) > 0 {
			if err := emit(n, raw); err != nil {
				return false, err
			}
		}
		if end || ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
	}
}

// matches are the files of some patterns, each once.
func matches(patterns []string) (out []string, err error) {
	for _, p := range patterns {
		names, err := filepath.Glob(p)
		if err != nil {
			return nil, err
		}
		out = append(out, names...)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// locate names file and line.
func (e *endpointTarget) locate(f *Finding) {
	if at, line := unpackedPlace(f.Offset); at < int64(len(e.files)) {
		f.File, f.Row = e.files[at], line
	}
}

// endpointRows computes the rows of a sink.
type endpointRows struct{ buf []byte }

var errNotJSON = errors.New("the value is not JSON")

func (r *endpointRows) row(s *sinkPlan, rec *stream.Record) (value []byte, headers []stream.Header, err error) {
	value = []byte("null")
	switch {
	case s.fields != nil:
		value, err = s.ev.AppendFields(s.valueBuf[:0], s.fields, rec)
	case s.value != nil:
		value, err = s.ev.AppendJSON(s.valueBuf[:0], s.value, rec)
	case rec.Value != nil:
		value = rec.Value
	}
	if err != nil {
		return nil, nil, err
	}
	if r.buf, err = documentForm(r.buf[:0], value); err != nil {
		return nil, nil, errNotJSON
	}
	return r.buf, nil, nil
}

func (r *endpointRows) showsKeys([]string) bool { return true }
