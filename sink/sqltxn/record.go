package sqltxn

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"strconv"

	"etl/internal/pgconn"
	"etl/stream"
)

// appendRecord writes what a dead letter needs of a record besides its place: time, key,
// value and headers. Null and empty stay different: a length is written plus one, 0 for
// null.
func appendRecord(dst []byte, r *stream.Record) []byte {
	dst = binary.AppendVarint(dst, r.Timestamp)
	dst = appendBytes(appendBytes(dst, r.Key), r.Value)
	dst = binary.AppendUvarint(dst, uint64(len(r.Headers)))
	for _, h := range r.Headers {
		dst = appendBytes(appendBytes(dst, []byte(h.Key)), h.Value)
	}
	return dst
}

func appendBytes(dst, b []byte) []byte {
	if b == nil {
		return append(dst, 0)
	}
	return append(binary.AppendUvarint(dst, uint64(len(b))+1), b...)
}

// recordReader reads what appendRecord wrote.
type recordReader struct {
	b   []byte
	bad bool
}

func (r *recordReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *recordReader) bytes() []byte {
	n := r.uvarint()
	if n == 0 || r.bad {
		return nil
	}
	if n--; n > uint64(len(r.b)) {
		r.bad = true
		return nil
	}
	out := append([]byte{}, r.b[:n]...)
	r.b = r.b[n:]
	return out
}

// parseRecord fills in what appendRecord wrote. The bytes are copied.
func parseRecord(b []byte, r *stream.Record) error {
	rd := recordReader{b: b}
	ts, n := binary.Varint(rd.b)
	if n <= 0 {
		return errors.New("a record that is cut off")
	}
	r.Timestamp, rd.b = ts, rd.b[n:]
	r.Key, r.Value = rd.bytes(), rd.bytes()
	count := rd.uvarint()
	for i := uint64(0); i < count && !rd.bad; i++ {
		r.Headers = append(r.Headers, stream.Header{Key: string(rd.bytes()), Value: rd.bytes()})
	}
	if rd.bad || len(rd.b) > 0 {
		return errors.New("a record that is cut off")
	}
	return nil
}

// record returns the record a row was made of: where it was read, and, if that was kept,
// what it holds.
func (f frame) toRecord(topics []string) stream.Record {
	r := stream.Record{Timestamp: -1, Pos: -1, Made: f.made()}
	r.Topic, r.Partition, r.Offset = f.place(topics)
	if f.hasRecord() {
		_ = parseRecord(f.record(), &r) // we wrote it
	}
	return r
}

// source words where a row's record was read: orders/3@17, or nothing for a row that came
// from no single record.
func (f frame) source(dst []byte, topics []string) []byte {
	topic, partition, offset := f.place(topics)
	if topic == "" {
		return dst
	}
	dst = strconv.AppendInt(append(append(dst, topic...), '/'), int64(partition), 10)
	return strconv.AppendInt(append(dst, '@'), offset, 10)
}

// Rejected is a row that the server refused, as it is kept until the next barrier, which
// rejects its record.
type Rejected struct {
	Record stream.Record
	// Code and Message are those of the error.
	Code, Message string
}

// Err returns why the row was refused.
func (r *Rejected) Err() error {
	return stream.Errorf(stream.Failed, r.Code, "write row", "", "%s", r.Message)
}

// reject makes a Rejected of a row and the server's answer.
func reject(f frame, topics []string, err error) Rejected {
	return Rejected{Record: f.toRecord(topics), Code: pgconn.CodeRow, Message: (&pgconn.RowError{Answer: pgconn.Row(err)}).Error()}
}

// storedReject is the form of a Rejected in a checkpoint (docs/formats/postgres.md).
type storedReject struct {
	Topic     string         `json:"topic,omitempty"`
	Partition int32          `json:"partition"`
	Offset    int64          `json:"offset"`
	Timestamp int64          `json:"timestamp"`
	Key       []byte         `json:"key"`
	Value     []byte         `json:"value"`
	Headers   []storedHeader `json:"headers,omitempty"`
	Made      bool           `json:"made,omitempty"`
	Code      string         `json:"code"`
	Message   string         `json:"message"`
}

type storedHeader struct {
	Key   string `json:"key"`
	Value []byte `json:"value"`
}

type storedRejects struct {
	Version int            `json:"version"`
	Rejects []storedReject `json:"rejects"`
}

// EncodeRejects returns rejects as a checkpoint holds them.
func EncodeRejects(rs []Rejected) ([]byte, error) {
	out := storedRejects{Version: 1}
	for _, r := range rs {
		s := storedReject{Topic: r.Record.Topic, Partition: r.Record.Partition, Offset: r.Record.Offset, Timestamp: r.Record.Timestamp,
			Key: r.Record.Key, Value: r.Record.Value, Made: r.Record.Made, Code: r.Code, Message: r.Message}
		for _, h := range r.Record.Headers {
			s.Headers = append(s.Headers, storedHeader(h))
		}
		out.Rejects = append(out.Rejects, s)
	}
	return json.Marshal(out)
}

// DecodeRejects reads what EncodeRejects wrote.
func DecodeRejects(b []byte) (rs []Rejected, err error) {
	var in storedRejects
	if err := json.Unmarshal(b, &in); err != nil || in.Version != 1 {
		return nil, stream.Errorf(stream.RestoreRefused, "postgres.state", "read rejected rows", "", "version %d, and this program reads 1: %w", in.Version, errors.Join(err))
	}
	for _, s := range in.Rejects {
		r := Rejected{Code: s.Code, Message: s.Message, Record: stream.Record{Topic: s.Topic, Partition: s.Partition, Offset: s.Offset,
			Timestamp: s.Timestamp, Key: s.Key, Value: s.Value, Made: s.Made, Pos: -1}}
		for _, h := range s.Headers {
			r.Record.Headers = append(r.Record.Headers, stream.Header(h))
		}
		rs = append(rs, r)
	}
	return rs, nil
}
