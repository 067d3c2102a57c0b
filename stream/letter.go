package stream

import (
	"errors"
	"strconv"
	"unicode/utf8"
)

// The headers of a dead letter, in this order behind those of the record. Whatever
// stands before the last etl.dlq.topic belongs to the record, even when it has such
// names itself: the record may have been a dead letter of another job.
const (
	letterTopic     = "etl.dlq.topic"
	letterPartition = "etl.dlq.partition"
	letterOffset    = "etl.dlq.offset"
	letterTimestamp = "etl.dlq.timestamp"
	letterComponent = "etl.dlq.component"
	letterCode      = "etl.dlq.code"
	letterMessage   = "etl.dlq.message"
	letterMade      = "etl.dlq.made" // only when true
)

// maxLetterMessage bounds the message of a dead letter, in bytes: a header must not
// make a record too large that was not.
const maxLetterMessage = 1000

// LetterSchema is that of dead letters as records: key and value are the original
// bytes, and what happened stands in headers.
var LetterSchema = &Schema{Format: Raw}

// Letter is a dead letter: a record that a component could not process, as it was
// read, and why. It says nothing of attempts, checkpoints or the time at which it
// was written, so that a replay gives the same letter.
type Letter struct {
	// Record is the record as it was read. When it is Made, it is the one that
	// reached the component, and no single record that was read stands behind it.
	// Topic, Partition and Offset say where it was read; "" and -1 when nowhere.
	Record
	// Component could not process it.
	Component UID
	// Code is the stable code of the error, Message a sentence without the payload.
	Code, Message string
}

// CodeRejected is the code of a record whose error has none.
const CodeRejected = "record.rejected"

// NewLetter returns the letter of r, which component could not process because of
// err. Its bytes are those of r.
func NewLetter(r *Record, component UID, err error) Letter {
	l := Letter{Record: *r.AsRead(), Component: component, Code: RejectCode(err), Message: sentence(err)}
	l.Orig, l.Doc, l.Pos = nil, nil, -1
	if l.Topic == "" {
		l.Partition, l.Offset = -1, -1
	}
	return l
}

// sentence is an error without its subject and its fix: the place of the record has
// fields of its own.
func sentence(err error) string {
	text := err.Error()
	var e *Error
	if errors.As(err, &e) && e.Err != nil {
		text = e.Err.Error()
		if e.Op != "" {
			text = e.Op + ": " + text
		}
	}
	if len(text) > maxLetterMessage {
		n := maxLetterMessage
		for n > 0 && !utf8.RuneStart(text[n]) {
			n--
		}
		text = text[:n]
	}
	return text
}

// AppendTo adds the letter to b as a record under LetterSchema. The bytes are copied.
// The record has no time of its own: topics delete records by it, so that the letter
// of an old record would be gone at once, and they refuse some times, for which the
// record itself may have been rejected.
func (l *Letter) AppendTo(b *Batch) {
	r := l.Record
	r.Group, r.Hash, r.Made, r.Timestamp = nil, 0, false, -1
	head := make([]Header, 0, len(l.Headers)+8)
	add := func(key, value string) { head = append(head, Header{Key: key, Value: []byte(value)}) }
	head = append(head, l.Headers...)
	add(letterTopic, l.Topic)
	add(letterPartition, strconv.Itoa(int(l.Partition)))
	add(letterOffset, strconv.FormatInt(l.Offset, 10))
	add(letterTimestamp, strconv.FormatInt(l.Timestamp, 10))
	add(letterComponent, string(l.Component))
	add(letterCode, l.Code)
	add(letterMessage, l.Message)
	if l.Made {
		add(letterMade, "true")
	}
	r.Headers = head
	b.AppendCopy(&r)
}

// OpenLetter reads a dead letter that was written as a record. The result points into
// r. It is false when r is none.
func OpenLetter(r *Record) (l Letter, ok bool) {
	from := -1
	for i, h := range r.Headers {
		if h.Key == letterTopic {
			from = i
		}
	}
	if from < 0 {
		return l, false
	}
	l.Record = *r
	l.Headers, l.Orig, l.Doc, l.Group, l.Hash, l.Pos, l.Made = r.Headers[:from:from], nil, nil, nil, 0, -1, false
	ok = true
	number := func(text string, bits int) int64 {
		n, err := strconv.ParseInt(text, 10, bits)
		ok = ok && err == nil
		return n
	}
	seen := 0
	for _, h := range r.Headers[from:] {
		text := string(h.Value)
		seen++
		switch h.Key {
		case letterTopic:
			l.Topic = text
		case letterPartition:
			l.Partition = int32(number(text, 32))
		case letterOffset:
			l.Offset = number(text, 64)
		case letterTimestamp:
			l.Timestamp = number(text, 64)
		case letterComponent:
			l.Component = UID(text)
		case letterCode:
			l.Code = text
		case letterMessage:
			l.Message = text
		case letterMade:
			l.Made = text == "true"
			seen--
		default:
			seen--
		}
	}
	return l, ok && seen == 7
}
