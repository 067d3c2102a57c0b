package http

import (
	"cmp"
	"crypto/tls"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"etl/sink"
	"etl/sink/wal"
	"etl/stream"
)

// Kind names the rows and committables of this package.
const Kind = "wal-http"

// Format is how the rows of a request are put together.
type Format string

// The formats.
const (
	// JSON is an array of rows.
	JSON Format = "json"
	// JSONLines is a row on each line.
	JSONLines Format = "json_lines"
)

// Encoder appends the JSON of a record's row to dst. An error rejects the record.
type Encoder func(dst []byte, r *stream.Record) ([]byte, error)

// Config describes a sink. The zero value of a field means its default.
type Config struct {
	// URL is the endpoint.
	URL string
	// Method is POST or PUT; default POST.
	Method string
	// Headers are sent with every request. Their values may be secrets: they are never
	// logged and never stored.
	Headers http.Header
	// TLS is used for https; nil for the system's certificates.
	TLS *tls.Config
	// Format is json or json_lines; default json.
	Format Format
	// MaxRows and MaxBytes bound a request; default 100 rows, 1 MiB. A row larger than
	// that goes alone.
	MaxRows  int
	MaxBytes int
	// Timeout bounds a request; default 30s.
	Timeout time.Duration
	// RetryInitial is the first pause after a failure, doubled each time up to RetryMax;
	// default 500ms and 1m. RetryMax bounds Retry-After, too.
	RetryInitial, RetryMax time.Duration
	// Encode returns an encoder for one subtask; nil writes values, which are JSON, as
	// they are.
	Encode func() Encoder
	// Sort says that rows which the endpoint refuses are put aside; without it they end
	// the job.
	Sort bool
	// Memory bounds the rows of an epoch of one subtask in memory; default 64 MiB. What is
	// beyond goes to SpillDir, by default the system's folder for temporary files.
	Memory   int64
	SpillDir string
	// Parallelism is the number of subtasks; default 1.
	Parallelism int
	// Log are the options of the log.
	Log wal.Options
}

// WithDefaults returns c with its zero fields filled in.
func (c Config) WithDefaults() Config {
	c.Method = cmp.Or(c.Method, http.MethodPost)
	c.Format = cmp.Or(c.Format, JSON)
	c.MaxRows = cmp.Or(c.MaxRows, 100)
	c.MaxBytes = cmp.Or(c.MaxBytes, 1<<20)
	c.Timeout = cmp.Or(c.Timeout, 30*time.Second)
	c.RetryInitial = cmp.Or(c.RetryInitial, 500*time.Millisecond)
	c.RetryMax = cmp.Or(c.RetryMax, time.Minute)
	c.Memory = cmp.Or(c.Memory, 64<<20)
	c.SpillDir = cmp.Or(c.SpillDir, os.TempDir())
	c.Parallelism = cmp.Or(c.Parallelism, 1)
	return c
}

// own are the headers that the sink sets by itself.
var own = []string{"Content-Type", "Content-Length", "Idempotency-Key", "Host", "Transfer-Encoding", "Connection"}

// Problems returns everything that is wrong with c, which has its defaults.
func (c *Config) Problems() (errs []error) {
	bad := func(code, subject, fix, format string, args ...any) {
		errs = append(errs, stream.Errorf(stream.BadConfig, "http."+code, "", subject, format, args...).WithFix("%s", fix))
	}
	switch u, err := url.Parse(c.URL); {
	case badPort(u, err):
		bad("url", "", "write a port such as 8080, or leave it out", "the port of the url is no number from 1 to 65535")
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
		bad("url", "", "write https://host/path, with the scheme", "the url is not of the form https://host/path")
	case u.User != nil:
		bad("url", "", "take it out of the url and add secret_headers: { Authorization: ${NAME} }", "the url holds a user or password: use an Authorization header, whose value is a secret")
	}
	if c.Method != http.MethodPost && c.Method != http.MethodPut {
		bad("method", "", "write one of them", "method %q is not POST or PUT", c.Method)
	}
	if c.Format != JSON && c.Format != JSONLines {
		bad("format", "", "write one of them", "format %q is not json or json_lines", c.Format)
	}
	if c.MaxRows < 1 || c.MaxBytes < 1 {
		bad("batch", "", "write 100 and 1MiB, or remove them", "max_rows %d and max_bytes %d must be positive", c.MaxRows, c.MaxBytes)
	}
	if c.Timeout < time.Millisecond || c.Timeout > time.Hour {
		bad("timeout", "", "write 30s, or remove it", "timeout %v is not between 1ms and 1h", c.Timeout)
	}
	if c.RetryInitial < time.Millisecond || c.RetryMax < c.RetryInitial || c.RetryMax > 24*time.Hour {
		bad("retry", "", "raise max, or lower initial", "initial %v and max %v: not between 1ms and 24h, in this order", c.RetryInitial, c.RetryMax)
	}
	for name, values := range c.Headers {
		if slices.Contains(own, http.CanonicalHeaderKey(name)) {
			bad("headers", name, "remove it", "the sink sets the header %s by itself", name)
		}
		if !validName(name) || slices.ContainsFunc(values, func(v string) bool { return strings.ContainsAny(v, "\r\n\x00") }) {
			bad("headers", name, "use letters, digits and - in names, and values of one line", "the header %q has a name or a value that HTTP does not allow", name)
		}
	}
	return errs
}

// validName reports whether a header can have the name.
func validName(s string) bool {
	for _, c := range s {
		if c <= ' ' || c >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c) {
			return false
		}
	}
	return s != ""
}

// New returns the sink as a program plugs it into a pipeline.
func New(cfg Config) *wal.Sink { return wal.New(target{cfg.WithDefaults()}, cfg.Log) }

// Features returns what the sink can do.
func (c Config) Features() sink.Features { return target{c}.Features() }

// target is a Config as the log takes it.
type target struct{ cfg Config }

var _ wal.Target = target{}

func (t target) Kind() string { return Kind }

func (t target) Features() sink.Features {
	return sink.Features{Repeats: true, Deferred: true, AppendOnly: true, Ordered: true}
}

func (t target) NewFront() wal.Front { return &front{cfg: t.cfg} }

func (t target) NewBack() wal.Back { return &back{cfg: t.cfg, lanes: map[int]*lane{}} }

// badPort reports whether an address is wrong in its port. The message must not show it:
// what stands there may be a password that a slash has cut off.
func badPort(u *url.URL, err error) bool {
	if err != nil {
		return strings.Contains(err.Error(), "invalid port ") && !strings.Contains(err.Error(), "@")
	}
	n, perr := strconv.ParseUint(u.Port(), 10, 16)
	return u.Port() != "" && (perr != nil || n == 0)
}
