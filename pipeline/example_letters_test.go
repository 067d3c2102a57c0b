package pipeline_test

import (
	"context"
	"fmt"
	"strconv"

	"etl/checkpoint/memstore"
	"etl/pipeline"
	"etl/stream"
	"etl/transform"
)

// What an operator cannot process goes to a sink of dead letters, in the same
// checkpoint as what it can: the record as it was read, and why, here as an object of
// fields.
func ExampleStream_DeadLetters() {
	good, dead := &shelf{}, &shelf{}
	b := pipeline.New("numbers")
	doubled := b.Source("lines", lines{"1", "two", "3"}, &stream.Schema{Format: stream.Text}).Apply("double", double{})
	doubled.Sink("good", good)
	doubled.DeadLetters().Apply("fields", transform.Letters{}).Sink("dead", dead)
	graph, err := b.Graph()
	if err != nil {
		fmt.Println(err)
		return
	}
	job, err := pipeline.NewJob(graph, pipeline.Options{World: stream.SystemWorld(nil), Storage: memstore.New("numbers")})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := job.Run(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(good.sorted())
	for _, letter := range dead.sorted() {
		fmt.Println(letter)
	}
	// Output:
	// [ 2  6]
	//  {"topic":"lines","partition":0,"offset":1,"timestamp":0,"component":"double","code":"numbers.syntax","message":"double: it is no number","made":false,"key":null,"key_base64":null,"value":"two","value_base64":null,"headers":[]}
}

// double is an operator that takes numbers only.
type double struct{}

func (double) OutputSchema(in *stream.Schema) (*stream.Schema, error) { return in, nil }

func (double) New() transform.Operator {
	return transform.MapFunc(&stream.Schema{Format: stream.Text}, func(dst []byte, r *stream.Record) ([]byte, error) {
		n, err := strconv.ParseInt(string(r.Value), 10, 64)
		if err != nil {
			return nil, stream.Errorf(stream.Failed, "numbers.syntax", "double", "", "it is no number")
		}
		return strconv.AppendInt(dst, 2*n, 10), nil
	})
}
