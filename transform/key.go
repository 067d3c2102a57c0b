package transform

import (
	"etl/expr"
	"etl/stream"
)

// Keyer computes the key of a rekey: it sets Group and Hash of records. It belongs
// to one task.
type Keyer struct {
	key func(dst []byte, r *stream.Record) ([]byte, error)
	buf []byte
}

// NewKeyer returns a Keyer whose keys are the canonical form of expressions: the
// JSON of one, or the list of several.
func NewKeyer(keys []*expr.Program) *Keyer {
	ev := expr.NewEvaluator()
	return KeyFunc(func(dst []byte, r *stream.Record) ([]byte, error) { return ev.AppendKey(dst, keys, r) })
}

// KeyFunc returns a Keyer whose keys are what f appends to dst: any bytes, but the
// same for records that belong together. nil means that the record has no key,
// which is an error of the record.
func KeyFunc(f func(dst []byte, r *stream.Record) ([]byte, error)) *Keyer {
	return &Keyer{key: f, buf: make([]byte, 0, 64)}
}

// RecordKey is the key of records that are already keyed in Kafka.
func RecordKey() *Keyer {
	return KeyFunc(func(dst []byte, r *stream.Record) ([]byte, error) {
		if r.Key == nil {
			return nil, nil
		}
		return append(dst, r.Key...), nil
	})
}

// Key sets Group and Hash of every record of b, with memory of b. A record without
// a key is passed to reject by its index, and its Group is nil.
func (k *Keyer) Key(b *stream.Batch, reject func(i int, err error)) error {
	for i := range b.Records {
		r := &b.Records[i]
		key, err := k.key(k.buf[:0], r)
		if err == nil && key == nil {
			err = stream.Errorf(stream.Failed, expr.CodeKeyNull, "compute key", expr.Where(r), "the record has no key")
		}
		if err != nil {
			r.Group, r.Hash = nil, 0
			reject(i, err)
			continue
		}
		k.buf = key
		r.Group, r.Hash = keep(b, key), stream.Hash(key)
	}
	return nil
}

// keep copies p into b; what is empty stays empty and does not become null.
func keep(b *stream.Batch, p []byte) []byte {
	if p != nil && len(p) == 0 {
		return []byte{}
	}
	return b.Copy(p)
}
