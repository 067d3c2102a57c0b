package verify

// wideLimit is how many ways a search over a whole partition follows.
const wideLimit = 256

// orderOfEquals checks the order of rows that have equals, which cannot be told
// apart: each partition of the sink has to be some interleaving of its streams.
func (c *comparison) orderOfEquals() {
	ins, ok := c.perPartition()
	if !c.clean || !ok {
		c.r.notChecked("%s: order of %s rows that have equals", c.t.topic, thousands(c.mixed))
		return
	}
	outs := map[int32][]uint64{}
	offsets := map[int32][]int32{}
	for n, i := range c.t.plain {
		row := c.t.rows.at(i)
		outs[row.partition] = append(outs[row.partition], c.t.timed(row.hash, row.ts))
		offsets[row.partition] = append(offsets[row.partition], int32(n))
	}
	for p, out := range outs {
		switch v, at := Interleaved(out, ins[p], wideLimit); v {
		case GaveUp:
			c.r.notChecked("%s: order of rows that have equals, from offset %d on: too many of them are alike", partitionName(c.t.topic, p), c.row(offsets[p][at]).offset)
		case Refuted:
			c.report(OutOfOrder, offsets[p][min(at, len(out)-1)], "no order of the inputs gives the rows up to here")
		}
	}
}

// perPartition returns the streams of each partition of the sink. That is known when
// equal rows lie in one partition, and all of them are there or none.
func (c *comparison) perPartition() (map[int32][][]uint64, bool) {
	home := map[uint64]int32{}
	for _, i := range c.t.plain {
		row := c.t.rows.at(i)
		h := c.t.timed(row.hash, row.ts)
		if p, ok := home[h]; ok && p != row.partition {
			return nil, false
		}
		home[h] = row.partition
	}
	ins := map[int32][][]uint64{}
	for i := range c.t.expected.n {
		e := c.t.expected.at(i)
		if !c.t.seen.list[e.stream].feed.ordered {
			return nil, false
		}
		h := c.t.timed(e.hash, e.ts)
		p, there := home[h]
		_, lacks := c.lacks[h]
		if there && lacks {
			return nil, false
		}
		if !there {
			continue // behind
		}
		if ins[p] == nil {
			ins[p] = make([][]uint64, len(c.t.seen.list))
		}
		ins[p][e.stream] = append(ins[p][e.stream], h)
	}
	return ins, true
}
