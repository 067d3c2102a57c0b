package transform

import (
	"fmt"
	"strings"

	"etl/expr"
	"etl/state"
	"etl/stream"
)

// Op is what an aggregation computes.
type Op string

// The operations.
const (
	// Count counts records; with Of, those where it is not null.
	Count Op = "count"
	// Sum adds exactly, starting at 0: ints in 64 bits, everything else as decimals
	// of any length.
	Sum Op = "sum"
	// Min and Max keep the least and the greatest number or string; null before the
	// first. Of equal numbers the one with fewer digits stays, so that the result
	// does not depend on the order.
	Min Op = "min"
	Max Op = "max"
)

// Aggregation is one result of an aggregate.
type Aggregation struct {
	Name string
	Op   Op
	// Of is what is computed with; nil only for Count.
	Of *expr.Program
	// Where selects the records that count; nil selects all.
	Where *expr.Program
}

// Aggregate keeps running results per key. It emits a JSON object: the fields of
// the key first, then the results in order.
//
// A key exists from its first record on, whether or not Where lets that one count.
type Aggregate struct {
	// Key are the expressions of the key, in canonical form in Record.Group; see
	// [NewKeyer].
	Key          []*expr.Program
	Aggregations []Aggregation
	Emit         When
	// Versioned keeps the number of records of each key in its state, besides the
	// results, and gives it to what is emitted as Record.Version. It counts records,
	// not changes: two runs that take the records of several partitions in different
	// orders must count alike.
	Versioned bool
}

// The codes of records that an aggregate rejects.
const (
	CodeOverflow = "aggregate.overflow"
	CodeNull     = "aggregate.null"
	CodeKind     = "aggregate.kind"
)

// OutputSchema returns the schema of the object. Its aliases are key for a single
// key, and key[0], key[1]... for several. Two fields of one name are an error.
func (a Aggregate) OutputSchema(*stream.Schema) (*stream.Schema, error) {
	var fields []stream.Field
	alias := map[string]string{}
	for i, name := range a.keyNames() {
		fields = append(fields, stream.Field{Name: name, Type: a.Key[i].Type()})
		if len(a.Key) == 1 {
			alias["key"] = name
		} else {
			alias[fmt.Sprintf("key[%d]", i)] = name
		}
	}
	for _, g := range a.Aggregations {
		fields = append(fields, stream.Field{Name: g.Name, Type: g.resultType()})
	}
	return schemaOf("aggregate", fields, alias)
}

// keyNames returns the field names of the key: the last name of a plain path, else
// key, or key0, key1... in a list.
func (a Aggregate) keyNames() []string {
	names := make([]string, len(a.Key))
	for i, p := range a.Key {
		name, ok := p.PathName()
		switch {
		case ok:
			names[i] = name
		case len(a.Key) == 1:
			names[i] = "key"
		default:
			names[i] = fmt.Sprintf("key%d", i)
		}
	}
	return names
}

func (g Aggregation) resultType() stream.Type {
	switch {
	case g.Op == Count:
		return stream.Type{Kind: stream.Int}
	case g.Op == Sum && g.Of.Type().Kind != stream.Int:
		return stream.Type{Kind: stream.Decimal}
	}
	return g.Of.Type()
}

// serializer names the layout of the state: another list of results cannot read
// it.
func (a Aggregate) serializer() string {
	var parts []string
	for _, g := range a.Aggregations {
		parts = append(parts, g.Name+":"+string(g.Op))
	}
	if a.Versioned {
		parts = append(parts, "#version")
	}
	return fmt.Sprintf("aggregate/%d(%s)", stateVersion, strings.Join(parts, ","))
}

// Descriptors returns the keyed state of the operator.
func (a Aggregate) Descriptors() []state.Descriptor {
	return []state.Descriptor{{Name: "aggregate", Kind: "value", Serializer: a.serializer()}}
}

// New returns the operator for one task.
func (a Aggregate) New() Operator {
	schema, _ := a.OutputSchema(nil)
	r := newResults(a)
	return Reduce{Name: "aggregate", Serializer: a.serializer(), Emit: a.Emit, Schema: schema, Update: r.update, Output: r.output}.New()
}

func (a Aggregate) names() (names []string) {
	for _, g := range a.Aggregations {
		names = append(names, g.Name)
	}
	return names
}
