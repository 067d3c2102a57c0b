package verify

// RunningCounts checks counts that are written with every change: those of a key
// must be 1, 2, 3... The zero value is ready. It is not safe for concurrent use.
type RunningCounts struct {
	last map[string]int64
	// Gaps counts the counts that were left out, Repeats those that were there
	// before, or lower than the one before.
	Gaps, Repeats int64
}

// Add takes the next count of a key and returns how many were left out before it,
// and whether it repeats or goes back.
func (c *RunningCounts) Add(key string, n int64) (gap int64, repeat bool) {
	if c.last == nil {
		c.last = map[string]int64{}
	}
	last := c.last[key]
	if n <= last {
		c.Repeats++
		return 0, true
	}
	gap = n - last - 1
	c.Gaps += gap
	c.last[key] = n
	return gap, false
}

// Last returns the highest count of a key, 0 for a key that was not seen.
func (c *RunningCounts) Last(key string) int64 { return c.last[key] }

// Keys returns the number of keys.
func (c *RunningCounts) Keys() int { return len(c.last) }

// SourceOrder checks that records of one source partition stay in order in each
// partition they are written to. The zero value is ready. It is not safe for
// concurrent use.
type SourceOrder struct {
	last map[sourceInto]int64
	// Breaks counts records that come at or after one that follows them.
	Breaks int64
}

type sourceInto struct {
	topic          string
	partition, out int32
}

// Add takes the next record of partition out, and where it came from; it reports
// whether it is in order.
func (o *SourceOrder) Add(out int32, topic string, partition int32, offset int64) bool {
	if o.last == nil {
		o.last = map[sourceInto]int64{}
	}
	k := sourceInto{topic, partition, out}
	last, ok := o.last[k]
	o.last[k] = offset
	if ok && offset <= last {
		o.Breaks++
		return false
	}
	return true
}
