package verify

import "etl/stream"

// streams numbers what arrives in order: the records of one source partition over
// one feed. Between two streams no order is promised.
type streams struct {
	ids  map[streamKey]uint16
	list []streamKey
}

type streamKey struct {
	feed      *feed
	topic     string
	partition int32
}

func (s *streams) of(f *feed, rec *stream.Record) uint16 {
	k := streamKey{f, rec.Topic, rec.Partition}
	id, ok := s.ids[k]
	if !ok {
		if s.ids == nil {
			s.ids = map[streamKey]uint16{}
		}
		id = uint16(len(s.list))
		s.ids[k] = id
		s.list = append(s.list, k)
	}
	return id
}

// reach is, for each stream, the offset of the last record that is known to have had
// an effect; -1 for none.
type reach []int64

func newReach(n int) reach {
	r := make(reach, n)
	for i := range r {
		r[i] = -1
	}
	return r
}

func (r reach) extend(stream uint16, offset int64) { r[stream] = max(r[stream], offset) }
