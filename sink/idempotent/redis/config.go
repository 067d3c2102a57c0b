package redis

import (
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"time"

	"etl/checkpoint"
	"etl/sink"
	"etl/sink/idempotent"
	"etl/stream"
)

// Kind is the type of the values.
type Kind string

// The kinds.
const (
	// Hash writes fields; a null one is removed, others of the key stay.
	Hash Kind = "hash"
	// String writes text or any bytes.
	String Kind = "string"
	// Counter writes a whole number of 64 bits, as INCR and its like keep it.
	Counter Kind = "counter"
)

// Conn says how a server is reached. The zero value of a field means its default.
type Conn struct {
	Address  string // host:port
	Username string
	Password stream.Secret
	Database int
	TLS      *tls.Config
	// Dial opens connections; default the world's.
	Dial stream.Dialer
}

// System names the server and database.
func (c Conn) System() string { return fmt.Sprintf("redis %s/%d", c.Address, c.Database) }

// Row is one row on its way out. An Encoder fills it in; its bytes are copied.
type Row struct {
	Key []byte
	// Delete removes the key.
	Delete bool
	// Value is that of a String or a Counter.
	Value []byte
	// Fields are those of a Hash; one whose Value is nil is removed.
	Fields []Field
}

// Field is a field of a hash.
type Field struct {
	Name  string
	Value []byte
}

// Encoder turns a record into a row, which comes with its slices empty. An error rejects
// the record.
type Encoder func(r *stream.Record, row *Row) error

// Config describes a sink. The zero value of a field means its default.
type Config struct {
	Conn Conn
	Kind Kind // default Hash
	// Encoder returns an encoder for one subtask.
	Encoder func() Encoder
	// Guard is counter, position or none; default counter.
	Guard idempotent.Guard
	// Tombstones is how long a deleted key keeps its version; default 168h.
	Tombstones time.Duration
	// Timeout bounds one call and its answer; default 10s.
	Timeout time.Duration
	OnError idempotent.OnError
	// Policy is the job's; its zero fields have the policy's defaults.
	Policy checkpoint.Policy
}

// WithDefaults returns c with its zero fields filled in.
func (c Config) WithDefaults() Config {
	c.Policy = c.Policy.WithDefaults()
	if c.Kind == "" {
		c.Kind = Hash
	}
	if c.Guard == "" {
		c.Guard = idempotent.Counter
	}
	if c.Tombstones == 0 {
		c.Tombstones = 7 * 24 * time.Hour
	}
	if c.Timeout == 0 {
		c.Timeout = 10 * time.Second
	}
	if c.OnError == "" {
		c.OnError = idempotent.Fail
	}
	return c
}

// Problems returns everything that is wrong with c, which has its defaults, as far as it
// can be seen without connecting.
func (c *Config) Problems() (errs []error) {
	bad := func(code, fix, format string, args ...any) {
		errs = append(errs, stream.Errorf(stream.BadConfig, "redis."+code, "", "", format, args...).WithFix("%s", fix))
	}
	host, port, err := net.SplitHostPort(c.Conn.Address)
	switch n, perr := strconv.ParseUint(port, 10, 16); {
	case err != nil || host == "" || port == "":
		bad("address", "write host:port, such as localhost:6379", "the address %q is not host:port", c.Conn.Address)
	case perr != nil || n == 0:
		bad("address", "write the port as a number from 1 to 65535, such as localhost:6379", "the address %q: %q is not a port", c.Conn.Address, port)
	}
	if c.Conn.Database < 0 {
		bad("database", "write a number from 0 on", "database %d is less than 0", c.Conn.Database)
	}
	switch c.Kind {
	case Hash, String, Counter:
	default:
		bad("kind", "write one of them", "kind %q is not hash, string or counter", c.Kind)
	}
	if c.Tombstones < time.Second {
		bad("tombstones", "write 168h, or remove it", "tombstones %v is less than a second", c.Tombstones)
	}
	if c.Timeout < time.Millisecond {
		bad("timeout", "write 10s, or remove it", "timeout %v is less than 1ms", c.Timeout)
	}
	return errs
}

// New returns the sink as a program plugs it into a pipeline.
func New(cfg Config) sink.Connector {
	cfg = cfg.WithDefaults()
	return idempotent.Connector{
		Config:   idempotent.Config{Guard: cfg.Guard, Policy: cfg.Policy, OnError: cfg.OnError},
		NewStore: func() idempotent.Store { return &store{cfg: cfg} }}
}
