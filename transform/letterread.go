package transform

import (
	"encoding/base64"
	"encoding/json"
	"errors"

	"etl/stream"
)

var errNoLetter = errors.New("it has no component and code, as dead letters have")

// ReadLetter reads a dead letter from an object as [AppendLetter] writes it. names are
// the members that hold its fields, by field, when they were written under other names;
// nil when not. A field that is not there is as one that is null.
func ReadLetter(doc []byte, names map[string]string) (l stream.Letter, err error) {
	var in map[string]json.RawMessage
	if err := json.Unmarshal(doc, &in); err != nil {
		return l, err
	}
	get := func(field string, into any) {
		name := field
		if names != nil {
			name = names[field]
		}
		if raw, ok := in[name]; ok && err == nil {
			err = json.Unmarshal(raw, into) // null leaves what is there
		}
	}
	var key, value, key64, value64 *string
	var headers []struct {
		Key   string  `json:"key"`
		Value *string `json:"value"`
		Bytes *string `json:"value_base64"`
	}
	l.Partition, l.Offset, l.Timestamp, l.Pos = -1, -1, -1, -1
	for field, into := range map[string]any{"topic": &l.Topic, "partition": &l.Partition, "offset": &l.Offset, "timestamp": &l.Timestamp,
		"component": &l.Component, "code": &l.Code, "message": &l.Message, "made": &l.Made,
		"key": &key, "key_base64": &key64, "value": &value, "value_base64": &value64, "headers": &headers} {
		get(field, into)
	}
	if err == nil && (l.Component == "" || l.Code == "") {
		err = errNoLetter
	}
	if err != nil {
		return l, err
	}
	var errs [2]error
	l.Key, errs[0] = readBytes(key, key64)
	l.Value, errs[1] = readBytes(value, value64)
	err = errors.Join(errs[:]...)
	for _, h := range headers {
		p, herr := readBytes(h.Value, h.Bytes)
		l.Headers, err = append(l.Headers, stream.Header{Key: h.Key, Value: p}), errors.Join(err, herr)
	}
	return l, err
}

// ReadLetterIn reads a dead letter whose object is a member of doc.
func ReadLetterIn(doc []byte, member string) (l stream.Letter, err error) {
	var in map[string]json.RawMessage
	if err := json.Unmarshal(doc, &in); err != nil {
		return l, err
	}
	return ReadLetter(in[member], nil)
}

// readBytes reads what appendBytes has written: one of the two members has the bytes.
func readBytes(text, base *string) ([]byte, error) {
	switch {
	case text != nil:
		return []byte(*text), nil
	case base != nil:
		return base64.StdEncoding.DecodeString(*base)
	}
	return nil, nil
}
