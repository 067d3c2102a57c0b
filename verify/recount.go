package verify

import (
	"context"
	"fmt"

	"etl/internal/kafkaconn"
)

// recounting is one recount.
type recounting struct {
	*plan
	o        *Options
	r        *Result
	clusters map[string]*cluster
	letters  []string
}

func recount(ctx context.Context, s *Spec, o *Options) (*Result, error) {
	c, err := newRecounting(s, o)
	if err != nil {
		return nil, err
	}
	defer c.close()
	for _, t := range c.targets {
		if err := c.readTarget(ctx, t); err != nil {
			return nil, err
		}
	}
	for _, l := range c.lasts {
		if err := c.readLast(ctx, l); err != nil {
			return nil, err
		}
	}
	for _, n := range c.order {
		if n.source != nil {
			if err := c.readSource(ctx, n); err != nil {
				return nil, err
			}
		}
	}
	return c.conclude(), nil
}

func (c *recounting) readTarget(ctx context.Context, t *target) error {
	if t.place != nil {
		return t.place.read(ctx, c, t)
	}
	return c.readSink(ctx, t)
}

func newRecounting(s *Spec, o *Options) (*recounting, error) {
	p, err := newPlan(s)
	if err != nil {
		return nil, err
	}
	c := &recounting{plan: p, o: o, r: &Result{limit: o.Examples, Checked: []string{}, NotChecked: []string{}, LeftOut: []string{}}, clusters: map[string]*cluster{}}
	c.letters = s.Letters
	for _, t := range p.targets {
		t.prepare(c.r)
	}
	return c, nil
}

func (c *recounting) close() {
	for _, k := range c.clusters {
		k.close()
	}
}

// conclude compares, once all is read.
func (c *recounting) conclude() *Result {
	c.sayRejected()
	c.sayLeftOut()
	for _, t := range c.targets {
		c.check(t)
	}
	for _, l := range c.lasts {
		c.checkLast(l)
	}
	c.locate()
	c.r.judge(*c.o)
	return c.r
}

// cluster returns the client of a connection.
func (c *recounting) cluster(conn kafkaconn.Config) (*cluster, error) {
	id := fmt.Sprintf("%v %p %p", conn.SeedBrokers, conn.TLS, conn.SASL)
	if k, ok := c.clusters[id]; ok {
		return k, nil
	}
	k, err := dial(conn, c.o.Clock)
	if err == nil {
		c.clusters[id] = k
	}
	return k, err
}
