package kafka

import "etl/source"

// connector is a Config as a program plugs it in.
type connector struct{ cfg Config }

// New returns the source as a program plugs it into a pipeline.
func New(cfg Config) source.Connector { return connector{cfg} }

func (c connector) NewEnumerator() source.Enumerator { return NewEnumerator(c.cfg) }
func (c connector) NewReader() source.Reader         { return NewReader(c.cfg) }
func (c connector) Bounded() bool                    { return c.cfg.Bounded() }
