package http

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"

	"etl/checkpoint"
	"etl/config"
	"etl/pipeline"
	"etl/sink/wal"
	walhttp "etl/sink/wal/http"
	"etl/stream"
)

// Sink are the keys of a sink.
type Sink struct {
	URL      string                    `yaml:"url" required:"true" doc:"the endpoint, https://host/path; what is secret belongs into secret_headers"`
	Method   string                    `yaml:"method" default:"POST" oneof:"POST|PUT" doc:"of requests"`
	Headers  config.Map[string]        `yaml:"headers" doc:"sent with every request"`
	Secrets  config.Map[config.Secret] `yaml:"secret_headers" doc:"sent with every request; their values are never shown and never stored"`
	Value    config.Expr               `yaml:"value" doc:"the row of a record; default its value"`
	Map      config.Map[config.Expr]   `yaml:"map" doc:"the row as an object, by fields"`
	Format   string                    `yaml:"format" default:"json" oneof:"json|json_lines" doc:"json sends an array of rows, json_lines a row on each line"`
	Batch    Batch                     `yaml:"batch" doc:"how many rows go into a request"`
	Timeout  config.Duration           `yaml:"timeout" default:"30s" doc:"how long an answer is waited for"`
	Retry    Retry                     `yaml:"retry" doc:"the pause before a request is made again"`
	TLS      *TLS                      `yaml:"tls" doc:"certificates to trust instead of the system's"`
	Delivery string                    `yaml:"delivery" default:"wal" oneof:"wal" means:"at least once, rows wait in checkpoint storage, duplicates carry the same key" doc:"wal keeps rows in checkpoint storage until the endpoint has taken them"`
	MaxLog   config.Size               `yaml:"max_log" default:"1GiB" doc:"the most that waits to be delivered; the job reads no faster beyond it"`
	Memory   config.Size               `yaml:"memory" default:"64MiB" doc:"how much of an epoch a subtask keeps in memory; the rest goes to disk"`
	SpillDir string                    `yaml:"spill_dir" doc:"the folder for what does not fit into memory; default the system's folder for temporary files"`
	_        struct{}                  `reserved:"key query auth"`
}

// Batch bounds a request.
type Batch struct {
	MaxRows  int         `yaml:"max_rows" default:"100" min:"1" max:"100000" doc:"rows of a request"`
	MaxBytes config.Size `yaml:"max_bytes" default:"1MiB" doc:"bytes of a request; a row larger than that goes alone"`
}

// Retry is the pause after a failure.
type Retry struct {
	Initial config.Duration `yaml:"initial" default:"500ms" doc:"the first pause, doubled after every failure"`
	Max     config.Duration `yaml:"max" default:"1m" doc:"the longest pause, also when the endpoint asks for a longer one (Retry-After)"`
}

// TLS are the keys of encryption.
type TLS struct {
	CAFile string `yaml:"ca_file" required:"true" doc:"PEM file of the certificates to trust instead of the system's"`
}

// Register adds the component type http to r.
func Register(r *config.Registry) {
	config.Register(r, config.Sinks, "http", "sends JSON to an endpoint", newSink)
}

// secretive are headers whose value is always a secret.
var secretive = []string{"Authorization", "Proxy-Authorization", "Cookie", "X-Api-Key"}

// keys are the keys behind the codes of sink/wal/http.
var keys = map[string]string{"http.url": "url", "http.method": "method", "http.format": "format", "http.batch": "batch", "http.timeout": "timeout",
	"http.retry": "retry", "http.headers": "headers"}

func newSink(c *config.Component, s *Sink) config.Parts {
	if c.Job.Policy.Mode == checkpoint.None {
		c.Problem("delivery", "sink.delivery", "rows wait in the log until their checkpoint is complete, and checkpoint.mode is none", "set checkpoint.mode: exactly_once or at_least_once")
	}
	if s.Memory == 0 {
		c.Problem("memory", "http.memory", "an epoch without memory cannot be kept", "write 64MiB, or remove it")
	}
	e := newEncoding(c, s)
	cfg := walhttp.Config{URL: s.URL, Method: s.Method, Headers: http.Header{}, Format: walhttp.Format(s.Format), MaxRows: s.Batch.MaxRows, MaxBytes: int(min(s.Batch.MaxBytes, 1<<30)),
		Timeout: s.Timeout.Std(), RetryInitial: s.Retry.Initial.Std(), RetryMax: s.Retry.Max.Std(), Encode: e.encoder(), Sort: c.OnError() != string(pipeline.Fail),
		Memory: int64(s.Memory), SpillDir: s.SpillDir, Parallelism: c.Parallelism, Log: wal.Options{MaxLog: int64(s.MaxLog)}}
	for _, h := range s.Headers {
		if slices.Contains(secretive, http.CanonicalHeaderKey(h.Key)) {
			c.Problem("headers."+h.Key, "http.headers", "the value of "+h.Key+" is a secret, and would be shown in plans", "move it to secret_headers")
		}
		cfg.Headers.Add(h.Key, h.Value)
	}
	for _, h := range s.Secrets {
		cfg.Headers.Add(h.Key, h.Value.Reveal())
	}
	if s.TLS != nil {
		cfg.TLS = trust(c, s.TLS)
	}
	for _, err := range cfg.Problems() {
		c.Reject(place(s, err), err)
	}
	own := walhttp.New(cfg)
	return config.Parts{Detail: where(s.URL),
		Outage: fmt.Sprintf("any outage loses nothing: rows wait in the log, and at max_log %v or 500 checkpoints reading stops", s.MaxLog),
		Sink:   &pipeline.Sink{Delivery: s.Delivery, Features: cfg.Features(), NewWriter: own.NewWriter, NewCommitter: own.NewCommitter},
		Limits: []config.Limit{{Level: config.AtLeastOnce, Setting: "type: http",
			Why: "an endpoint cannot be asked what it has: at-least-once, duplicates carry the same key (Idempotency-Key)"}},
		Notes: []string{"an endpoint that remembers keys takes each row once; one that is away is waited for while the log has room"}}
}

// place returns the key of a sink that an error is about.
func place(s *Sink, err error) string {
	key := keys[stream.CodeOf(err)]
	var e *stream.Error
	if key != "headers" || !errors.As(err, &e) {
		return key
	}
	if slices.Contains(s.Secrets.Keys(), e.Subject) {
		key = "secret_headers"
	}
	return key + "." + e.Subject
}

// where names the endpoint in plans: what follows the path may be a secret.
func where(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// trust reads the certificates now, so that lint finds what run would.
func trust(c *config.Component, t *TLS) *tls.Config {
	pem, err := os.ReadFile(t.CAFile)
	pool := x509.NewCertPool()
	switch {
	case err != nil:
		c.Problem("tls.ca_file", "http.tls", err.Error(), "name a PEM file that this process may read")
	case !pool.AppendCertsFromPEM(pem):
		c.Problem("tls.ca_file", "http.tls", t.CAFile+": no PEM certificate in it", "name a PEM file of certificates")
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}
