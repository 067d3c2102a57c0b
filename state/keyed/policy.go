package keyed

// Policy says what snapshots consist of.
type Policy struct {
	// Full makes every snapshot self-contained; otherwise a snapshot adds a
	// segment to the chain.
	Full bool
	// Base replaces long chains by a base even while everything is in memory,
	// instead of by a full segment. A full segment costs about a fiftieth of the
	// processor time per entry; a base lets a restart begin at once.
	Base bool
	// SegmentBytes is how many bytes of segments may follow a full segment or a
	// base before a new one is made; it is made at twice the size of the old one
	// if that is more. Default 256 MiB.
	SegmentBytes int64
	// SegmentCount is the same for their number, so that metadata stays small;
	// small segments get more. Default 256.
	SegmentCount int
}

func (p Policy) withDefaults() Policy {
	if p.SegmentBytes == 0 {
		p.SegmentBytes = 256 << 20
	}
	if p.SegmentCount == 0 {
		p.SegmentCount = 256
	}
	return p
}

// Long reports whether so much follows a base or full segment of size bytes that
// it should be replaced. A number of segments alone is no reason while they are
// small beside it, up to eight times SegmentCount: writing a gigabyte again to
// save a few kilobytes of metadata is no bargain.
func (p Policy) Long(size, bytes int64, count int) bool {
	p = p.withDefaults()
	switch {
	case bytes > max(p.SegmentBytes, 2*size):
		return true
	case count > p.SegmentCount:
		return bytes > size/4 || count > 8*p.SegmentCount
	}
	return false
}
