package verify

import (
	"path/filepath"
	"strings"

	"etl/expr"
	"etl/stream"
)

// sinkPlan is a sink as it is recomputed.
type sinkPlan struct {
	*node
	spec       *Sink
	key, value *expr.Program
	asJSON     bool // how value is written
	target     *target
	rows       maker     // of a sink that writes no topic
	last       *lastRows // of a sink that keeps the last row per key; it has no target
	keyBuf     []byte
	valueBuf   []byte
}

func (p *plan) addSink(s *Sink) error {
	if s.Endpoint != nil && len(s.Endpoint.Received) == 0 {
		p.leftOut = append(p.leftOut, s.Name)
		return nil
	}
	n, in, err := p.add(s.Name, "sink", s.Inputs, s.OnError, s.Parallelism)
	if err != nil {
		return err
	}
	sp := &sinkPlan{node: n, spec: s, asJSON: s.Encode == "" || s.Encode == "json"}
	n.sink, n.out = sp, in
	if s.Last != nil {
		return p.addLast(sp, expr.Env{This: in})
	}
	if err := sp.compile(expr.Env{This: in}); err != nil {
		return err
	}
	sp.target = p.targetOf(s)
	sp.takePlace()
	sp.target.res.atLeastOnce = sp.target.res.atLeastOnce || s.AtLeastOnce || p.atLeastOnce
	return nil
}

// takePlace gives the target its place, when it is no topic.
func (s *sinkPlan) takePlace() {
	t := s.target
	switch {
	case s.spec.File != nil:
		t.place = &fileTarget{rows: s.rows.(*fileRows)}
	case s.spec.Append != nil:
		s.compileAppend(t)
	case s.spec.Endpoint != nil:
		s.compileEndpoint(t)
	}
	t.appendTime = t.appendTime || t.place != nil // rows there have no time
}

func (s *sinkPlan) compile(env expr.Env) (err error) {
	if s.spec.File != nil {
		if err := s.compileFile(env); err != nil || s.fields != nil {
			return err
		}
	}
	if s.spec.Append != nil {
		return s.mapped(s.spec.Append.Columns, env)
	}
	if s.spec.Key != "" {
		if s.key, err = compileIn(s.name, "key", s.spec.Key, env); err != nil {
			return err
		}
	}
	value := s.spec.Value
	switch {
	case len(s.spec.Map) > 0:
		return s.mapped(s.spec.Map, env)
	case value == "" && (s.spec.Encode == "json" || s.spec.File != nil || s.spec.Endpoint != nil) && env.This.Format == stream.Text:
		value = "this"
	case value == "":
		return nil
	}
	s.value, err = compileIn(s.name, "value", value, env)
	return err
}

// targetOf returns the topic or place of a sink, which several sinks may share.
func (p *plan) targetOf(s *Sink) *target {
	at, topic := strings.Join(s.Conn.SeedBrokers, ",")+" "+s.Topic, s.Topic
	switch {
	case s.File != nil:
		topic = filepath.Join(s.File.Path, strings.TrimSuffix(s.File.prefix(), "."))
		at = "file " + topic
	case s.Append != nil:
		topic = s.Append.Postgres.name()
		at = "table " + s.Append.Postgres.Conn.System() + " " + topic
	case s.Endpoint != nil:
		topic = "endpoint " + s.Name
		at = topic
	}
	for _, t := range p.targets {
		if t.id == at {
			return t
		}
	}
	t := &target{id: at, topic: topic, conn: s.Conn}
	p.targets = append(p.targets, t)
	return t
}

// row returns what the sink writes for a record; ok is false when it rejects it.
// The bytes are good until the next call.
func (s *sinkPlan) row(rec *stream.Record) (key, value []byte, headers []stream.Header, ok bool) {
	if s.rows != nil {
		value, headers, err := s.rows.row(s, rec)
		if err != nil {
			s.reject(err)
		}
		return nil, value, headers, err == nil
	}
	key, value = rec.Key, rec.Value
	var err error
	if s.key != nil {
		if key, err = s.ev.Bytes(s.keyBuf[:0], s.key, rec); key != nil {
			s.keyBuf = key
		}
	}
	if err == nil && value != nil && (s.fields != nil || s.value != nil) {
		if value, err = s.newValue(rec); value != nil {
			s.valueBuf = value
		}
	}
	if err != nil {
		s.reject(err)
		return nil, nil, nil, false
	}
	if !s.spec.DropHeaders {
		headers = rec.Headers
	}
	return key, value, headers, true
}

func (s *sinkPlan) newValue(rec *stream.Record) ([]byte, error) {
	switch {
	case s.fields != nil:
		return s.ev.AppendFields(s.valueBuf[:0], s.fields, rec)
	case s.asJSON:
		return s.ev.AppendJSON(s.valueBuf[:0], s.value, rec)
	}
	return s.ev.Bytes(s.valueBuf[:0], s.value, rec)
}
