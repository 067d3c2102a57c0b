package kafkatxn

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"etl/checkpoint"
	"etl/stream"
)

func samplePayload() *Payload {
	return &Payload{
		Txn:  Txn{TxID: "etl.orders.out.0.abababab.3.1", PID: 4006, Epoch: 7, TV: 2},
		Slot: 1, Group: "etl.commit.orders.out.abababab.0", Topic: "out", TopicID: stream.TopicID{1, 2, 3},
		StartMillis: 1795978848215, TimeoutMillis: 900000,
		Written: []Written{{Topic: "out", Partitions: []int32{0, 2}, Last: []int64{41, 1 << 40}}, {Topic: "late", Partitions: []int32{0}, Last: []int64{0}}},
	}
}

// The stored form of version 1: an old checkpoint must stay readable for ever.
func TestPayloadGolden(t *testing.T) {
	const file = "testdata/committable-v1.json"
	b, err := samplePayload().Encode()
	if err != nil {
		t.Fatal(err)
	}
	golden, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(string(golden)) != string(b) {
		t.Errorf("version 1 is written differently now:\n%s\nwas\n%s", b, golden)
	}
	p, err := Decode(&checkpoint.Committable{Kind: Kind, Version: 1, Payload: golden})
	if err != nil || !reflect.DeepEqual(p, samplePayload()) {
		t.Errorf("%+v %v", p, err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	good, err := samplePayload().Encode()
	if err != nil {
		t.Fatal(err)
	}
	edit := func(f func(*Payload)) []byte {
		p := samplePayload()
		f(p)
		b, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for name, c := range map[string]checkpoint.Committable{
		"kind":      {Kind: "postgres", Version: 1, Payload: good},
		"version":   {Kind: Kind, Version: 2, Payload: good},
		"empty":     {Kind: Kind, Version: 1},
		"truncated": {Kind: Kind, Version: 1, Payload: good[:len(good)-1]},
		"trailing":  {Kind: Kind, Version: 1, Payload: append(append([]byte{}, good...), good...)},
		"unknown":   {Kind: Kind, Version: 1, Payload: []byte(strings.Replace(string(good), `"slot"`, `"sloth"`, 1))},
		"no id":     {Kind: Kind, Version: 1, Payload: edit(func(p *Payload) { p.TxID = "" })},
		"pid":       {Kind: Kind, Version: 1, Payload: edit(func(p *Payload) { p.PID = -1 })},
		"no rows":   {Kind: Kind, Version: 1, Payload: edit(func(p *Payload) { p.Written = nil })},
		"uneven":    {Kind: Kind, Version: 1, Payload: edit(func(p *Payload) { p.Written[0].Last = nil })},
		"offset":    {Kind: Kind, Version: 1, Payload: edit(func(p *Payload) { p.Written[0].Last[0] = -1 })},
		"timeout":   {Kind: Kind, Version: 1, Payload: edit(func(p *Payload) { p.TimeoutMillis = 0 })},
	} {
		if p, err := Decode(&c); stream.ClassOf(err) != stream.RestoreRefused {
			t.Errorf("%s: %+v %v", name, p, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	good, err := samplePayload().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Decode(&checkpoint.Committable{Kind: Kind, Version: 1, Payload: b})
		if err != nil {
			return
		}
		again, err := p.Encode()
		if err != nil {
			t.Fatalf("decoded, and cannot be encoded: %v", err)
		}
		q, err := Decode(&checkpoint.Committable{Kind: Kind, Version: 1, Payload: again})
		if err != nil || !reflect.DeepEqual(p, q) {
			t.Fatalf("%+v became %+v: %v", p, q, err)
		}
	})
}
