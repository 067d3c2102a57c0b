package transform_test

import (
	"context"
	"fmt"
	"strings"

	"etl/expr"
	"etl/stream"
	"etl/transform"
)

// printer is an output that prints what it gets.
type printer struct{}

func (printer) Emit(r stream.Record)                    { fmt.Println(string(r.Value)) }
func (printer) Batch() *stream.Batch                    { return stream.NewBatch(nil) }
func (printer) Side(stream.Tag, stream.Record)          {}
func (printer) SideBatch(_ stream.Tag, b *stream.Batch) { b.Release() }
func (printer) Reject(r stream.Record, err error)       { fmt.Println("rejected:", err) }
func (printer) EmitBatch(b *stream.Batch) {
	for _, r := range b.Records {
		fmt.Println(string(r.Value))
	}
	b.Release()
}

func batchOf(values ...string) *stream.Batch {
	b := stream.NewBatch(&stream.Schema{Format: stream.JSON})
	for i, v := range values {
		b.Append(stream.Record{Topic: "shop.orders", Offset: int64(i), Value: []byte(v)})
	}
	return b
}

// A filter made of an expression. A record that it cannot decide on is rejected,
// not lost.
func ExampleFilter() {
	where, err := expr.Compile("this.total > 10", expr.Env{Want: stream.Bool})
	if err != nil {
		panic(err)
	}
	op := transform.Filter{Where: where}.New()
	b := batchOf(`{"total":12.5}`, `{"total":3}`, `{"id":1}`)
	defer b.Release()
	_ = op.Process(context.Background(), b, printer{})
	// Output:
	// rejected: evaluate: shop.orders/0@2: null and int have no order (>) in `this.total > 10` at column 12
	// {"total":12.5}
}

// A map written in Go.
func ExampleMapFunc() {
	op := transform.MapFunc(nil, func(dst []byte, r *stream.Record) ([]byte, error) {
		return append(dst, strings.ToUpper(string(r.Value))...), nil
	})
	b := batchOf("a", "b")
	defer b.Release()
	_ = op.Process(context.Background(), b, printer{})
	// Output:
	// A
	// B
}
