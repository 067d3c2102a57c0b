package expr_test

import (
	"errors"
	"fmt"

	"etl/expr"
	"etl/stream"
)

// A condition and an object of expressions over one record, which is parsed once.
func Example() {
	where, err := expr.Compile(`this.behavior in ["buy", "cart"]`, expr.Env{Want: stream.Bool})
	if err != nil {
		panic(err)
	}
	id, _ := expr.Compile("this.user.id", expr.Env{})
	total, _ := expr.Compile("this.price * this.qty", expr.Env{})
	fields := expr.NewFields([]string{"user", "total"}, []*expr.Program{id, total})

	ev := expr.NewEvaluator()
	rec := &stream.Record{Value: []byte(`{"behavior":"buy","user":{"id":9007199254740993},"price":12.50,"qty":3}`)}
	if keep, err := ev.Bool(where, rec); err == nil && keep {
		out, err := ev.AppendFields(nil, fields, rec)
		fmt.Println(string(out), err)
	}
	// Output: {"user":9007199254740993,"total":37.50} <nil>
}

// Errors name the place inside the expression and what may have been meant.
func ExampleCompile_error() {
	schema := &stream.Schema{Format: stream.JSON, Type: stream.Type{Kind: stream.Object, Fields: []stream.Field{
		{Name: "price", Type: stream.Type{Kind: stream.Decimal}}, {Name: "qty", Type: stream.Type{Kind: stream.Int}}}}}
	_, err := expr.Compile("this.price * this.qtyy", expr.Env{This: schema})
	var e *expr.Error
	if errors.As(err, &e) {
		fmt.Println(e.Code, e.Line, e.Column, e.Near)
	}
	// Output: expr.unknown_field 1 19 [qty]
}
