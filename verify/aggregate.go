package verify

import (
	"errors"
	"fmt"

	"etl/expr"
	"etl/expr/decimal"
	"etl/expr/jsondoc"
	"etl/stream"
)

// aggregate is an aggregate as it is recomputed: what an input contributes, how
// contributions add up, and the object that a state is shown as.
type aggregate struct {
	*node
	keys     []*expr.Program
	keyNames []string
	items    []item
	onChange bool
	heads    []string // {"key": and ,"name":
	doc      jsondoc.Doc

	// An input counts only by what it contributes: equal contributions are stored
	// once.
	known         map[string]uint32
	contributions []contribution
	text          []byte

	groups map[string]int32
	keyed  []keyInputs
	inputs arena[input]
	feeds  []*feed
	seen   streams
	// behind is another aggregate that this one takes from: then its inputs depend
	// on the order in which that one worked, and cannot be recomputed.
	behind string
}

// item is one result.
type item struct {
	name, op  string
	of, where *expr.Program
	ints      bool // stays in 64 bits
}

// part is what an input contributes to one result.
type part struct {
	tag  byte // partNone, partCount, partNumber, partText
	num  decimal.Number
	text string
}

const (
	partNone byte = iota
	partCount
	partNumber
	partText
)

type contribution []part

// always reports whether the input changes its key whatever the state: then it
// gives exactly one update.
func (a *aggregate) always(c contribution) bool {
	for i, p := range c {
		if p.tag != partNone && (a.items[i].op == "count" || a.items[i].op == "sum") {
			return true
		}
	}
	return false
}

var errNoKey = errors.New("the record has no key")

// contribution works out what rec contributes, and to which key. ok is false for a
// record that is rejected; that leaves no trace.
func (a *aggregate) contribution(rec *stream.Record) (group []byte, c uint32, ok bool) {
	group, err := a.ev.AppendKey(a.buf[:0], a.keys, rec)
	if err == nil && group == nil {
		err = errNoKey
	}
	if err == nil {
		a.buf = group
		err = a.parts(rec)
	}
	if err != nil {
		a.reject(err)
		return nil, 0, false
	}
	return group, a.intern(), true
}

// parts puts the parts of a contribution into a.text, each as tag, length, text.
func (a *aggregate) parts(rec *stream.Record) error {
	a.text = a.text[:0]
	for i := range a.items {
		it := &a.items[i]
		if it.where != nil {
			if ok, err := a.ev.Bool(it.where, rec); err != nil {
				return err
			} else if !ok {
				a.text = append(a.text, partNone, 0)
				continue
			}
		}
		if err := a.part(it, rec); err != nil {
			return err
		}
	}
	return nil
}

func (a *aggregate) part(it *item, rec *stream.Record) error {
	if it.of == nil {
		a.text = append(a.text, partCount, 0)
		return nil
	}
	v, err := a.ev.Value(it.of, rec)
	if err != nil {
		return err
	}
	number, isNumber := v.Number()
	text, isText := v.Text()
	switch {
	case it.op == "count" && v.IsNull():
		a.text = append(a.text, partNone, 0)
	case it.op == "count":
		a.text = append(a.text, partCount, 0)
	case isNumber:
		a.text = appendField(append(a.text, partNumber), number.Append(nil))
	case isText && it.op != "sum":
		a.text = appendField(append(a.text, partText), []byte(text))
	default:
		return fmt.Errorf("%s of %s: the value is %s", it.op, it.name, v.Kind())
	}
	return nil
}

// intern returns the number of the contribution in a.text.
func (a *aggregate) intern() uint32 {
	if id, ok := a.known[string(a.text)]; ok {
		return id
	}
	id := uint32(len(a.contributions))
	a.known[string(a.text)] = id
	a.contributions = append(a.contributions, parse(a.text))
	return id
}

func parse(b []byte) (c contribution) {
	for len(b) > 0 {
		p := part{tag: b[0]}
		text, rest := readField(b[1:])
		if p.tag == partNumber {
			p.num, _ = decimal.Parse(text)
		}
		p.text = string(text)
		c, b = append(c, p), rest
	}
	return c
}

// streamRecord shortens signatures.
type streamRecord = stream.Record

// record returns what the aggregate emits. What is written at a checkpoint has no
// time and no place of its own.
func (a *aggregate) record(value []byte, group string, s *streams, trigger *input) *streamRecord {
	r := &streamRecord{Value: value, Group: []byte(group), Timestamp: -1, Pos: -1}
	if trigger != nil {
		at := s.list[trigger.stream]
		r.Topic, r.Partition, r.Offset, r.Timestamp = at.topic, at.partition, trigger.offset, trigger.ts
	}
	return r
}
