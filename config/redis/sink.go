package redis

import (
	"context"
	"fmt"
	"strings"

	"etl/config"
	"etl/expr"
	"etl/pipeline"
	"etl/sink/idempotent"
	"etl/sink/idempotent/redis"
	"etl/stream"
	"etl/transform"
)

// Sink are the keys of a sink.
type Sink struct {
	Connection string                  `yaml:"connection" required:"true" doc:"the name of a redis connection"`
	Kind       string                  `yaml:"kind" word:"true" default:"hash" oneof:"hash|string|counter" doc:"hash writes fields, string a text or JSON, counter a whole number, which is set, not incremented"`
	Prefix     string                  `yaml:"prefix" doc:"begins every key in Redis, such as user:"`
	Key        []config.Expr           `yaml:"key" required:"true" one:"true" doc:"the key: one expression, or a list, whose values are joined by ':'"`
	Fields     config.Map[config.Expr] `yaml:"fields" doc:"of kind hash: its fields; one that is null is removed"`
	Value      config.Expr             `yaml:"value" doc:"of the kinds string and counter: the value; text as it is, anything else as JSON"`
	Delivery   string                  `yaml:"delivery" default:"idempotent" oneof:"idempotent" means:"effectively once, written at once, the last value of a key is right in the end" doc:"rows are written at once, so that repeating them changes nothing"`
	Version    string                  `yaml:"version" default:"auto" oneof:"auto|counter|position|none" doc:"how an older value is told from a newer one; auto counts the records of each key, position takes offsets, none has no guard"`
	Tombstones config.Duration         `yaml:"tombstones" default:"168h" doc:"how long a key that a record without a value has deleted keeps its version, so that a replay does not bring it back"`
	Timeout    config.Duration         `yaml:"timeout" default:"10s" doc:"how long a call may take before it is made again"`
	_          struct{}                `reserved:"ttl"`
}

// sinkKeys are the keys behind the codes of sink/idempotent/redis.
var sinkKeys = map[string]string{"redis.kind": "kind", "redis.tombstones": "tombstones", "redis.timeout": "timeout"}

func newSink(c *config.Component, s *Sink) config.Parts {
	e := compile(c, s)
	cfg := redis.Config{Kind: redis.Kind(s.Kind), Encoder: e.encoder, Tombstones: s.Tombstones.Std(), Timeout: s.Timeout.Std(),
		OnError: idempotent.OnError(c.OnError()), Policy: c.Job.Policy}
	for key, d := range map[string]config.Duration{"tombstones": s.Tombstones, "timeout": s.Timeout} {
		if d == 0 {
			c.Problem(key, "redis."+key, "0s is no time", "write a positive duration, or remove it")
		}
	}
	texts := make([]string, len(s.Key))
	for i, k := range s.Key {
		texts[i] = string(k)
	}
	p := config.Parts{Detail: fmt.Sprintf("%s %s by %s", s.Kind, s.Prefix+"*", strings.Join(texts, ", ")), Key: e.distribution(texts)}
	if conn := config.Connected[Connection](c, "connection", s.Connection); conn != nil {
		cfg.Conn, _ = conn.conn() // what is wrong with it was reported there
		p.Writes = []config.Place{{System: cfg.Conn.System(), Name: s.Prefix + "*"}}
		p.Claims = []config.Claim{{Kind: "prefix of keys", Name: cfg.Conn.System() + " " + s.Prefix, Path: "prefix"}}
	}
	cfg.Guard = idempotent.Guard(c.Guard(config.Idempotent{Version: s.Version, KeyPath: "key", Key: texts, By: p.Key}, &p))
	cfg = cfg.WithDefaults()
	for _, err := range cfg.Problems() {
		if key := sinkKeys[stream.CodeOf(err)]; key != "" {
			c.Reject(key, err)
		}
	}
	own := redis.New(cfg)
	p.Sink = &pipeline.Sink{Delivery: s.Delivery, Features: own.Features(), NewWriter: own.NewWriter}
	p.Outage = "any outage loses nothing: rows since the last checkpoint are written again; reading stops meanwhile; a server that forgot what it had taken ends the job (exit 5)"
	p.Preflight = func(ctx context.Context, w stream.World) (config.Facts, error) {
		warnings, err := cfg.Preflight(ctx, w)
		return config.Facts{Found: found(warnings, nil)}, err
	}
	p.Probe = func(ctx context.Context, w stream.World) []config.Found {
		return found(cfg.Probe(ctx, w, s.Prefix))
	}
	return p
}

// found are findings about the server.
func found(warnings, errs []error) (out []config.Found) {
	for _, err := range errs {
		out = append(out, config.Found{Path: "connection", Err: err})
	}
	for _, err := range warnings {
		out = append(out, config.Found{Path: "connection", Err: err, Warning: true})
	}
	return out
}

// encoding says how a record becomes a row. It is shared; encoders are not.
type encoding struct {
	prefix string
	keys   []*expr.Program
	names  []string
	fields []*expr.Program
	value  *expr.Program
}

// compile compiles the expressions of a sink.
func compile(c *config.Component, s *Sink) *encoding {
	env := expr.Env{This: c.Schema()}
	e := &encoding{prefix: s.Prefix}
	for i, k := range s.Key {
		path := fmt.Sprintf("key[%d]", i)
		if !c.Has(path) {
			path = "key"
		}
		if p := c.Compile(path, k, env); p != nil {
			e.keys = append(e.keys, p)
		}
	}
	hash := s.Kind == "hash"
	switch {
	case !c.Known("kind"): // nobody knows what it needs
	case hash && len(s.Fields) == 0:
		c.Problem("fields", "redis.fields", "a hash needs fields", "add fields: { name: expression }, or write kind: string with a value")
	case hash && s.Value != "":
		c.Problem("value", "redis.value", "value is for the kinds string and counter", "remove it")
	case !hash && len(s.Fields) > 0:
		c.Problem("fields", "redis.fields", "fields are for the kind hash", "remove them")
	case !hash && s.Value == "":
		c.Problem("value", "redis.value", "the kind "+s.Kind+" needs a value", "add value: an expression")
	case hash:
		for _, f := range c.CompileFields("fields", s.Fields, env) {
			e.names, e.fields = append(e.names, f.Name), append(e.fields, f.Value)
		}
	default:
		e.value = c.Compile("value", s.Value, env)
	}
	return e
}

// distribution sends the records of a key to one subtask.
func (e *encoding) distribution(texts []string) *pipeline.Key {
	return &pipeline.Key{Text: strings.Join(texts, ", "), New: func() pipeline.Keyer { return transform.NewKeyer(e.keys) }}
}

// encoder returns the encoder of one writer. A record without a value deletes its key.
func (e *encoding) encoder() redis.Encoder {
	ev := expr.NewEvaluator()
	var buf []byte
	return func(r *stream.Record, row *redis.Row) (err error) {
		if row.Key, err = e.key(ev, row.Key, r); err != nil {
			return err
		}
		if r.Value == nil {
			row.Delete = true
			return nil
		}
		if e.value != nil {
			row.Value, _, err = text(ev, row.Value, e.value, r)
			return err
		}
		buf = buf[:0]
		for i, p := range e.fields {
			at := len(buf)
			var null bool
			if buf, null, err = text(ev, buf, p, r); err != nil {
				return err
			}
			f := redis.Field{Name: e.names[i]}
			if !null {
				f.Value = buf[at:len(buf):len(buf)]
			}
			row.Fields = append(row.Fields, f)
		}
		return nil
	}
}

// key appends the key in Redis. In a list ':' and '%' are escaped, so that no two keys look
// alike.
func (e *encoding) key(ev *expr.Evaluator, dst []byte, r *stream.Record) ([]byte, error) {
	dst = append(dst, e.prefix...)
	for i, p := range e.keys {
		if i > 0 {
			dst = append(dst, ':')
		}
		at := len(dst)
		out, null, err := text(ev, dst, p, r)
		if err != nil {
			return dst, err
		}
		if null {
			return dst, stream.Errorf(stream.Failed, expr.CodeKeyNull, "write row", expr.Where(r), "the key is null")
		}
		if dst = out; len(e.keys) > 1 {
			part := strings.NewReplacer("%", "%25", ":", "%3A").Replace(string(dst[at:]))
			dst = append(dst[:at], part...)
		}
	}
	return dst, nil
}

// text appends a value: a string as it is, everything else as JSON.
func text(ev *expr.Evaluator, dst []byte, p *expr.Program, r *stream.Record) (out []byte, null bool, err error) {
	v, err := ev.Value(p, r)
	if err != nil || v.IsNull() {
		return dst, true, err
	}
	if s, ok := v.Text(); ok {
		return append(dst, s...), false, nil
	}
	out, err = ev.AppendJSON(dst, p, r)
	return out, false, err
}
