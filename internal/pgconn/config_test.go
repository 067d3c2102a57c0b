package pgconn

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"etl/stream"
)

// clean takes the machine's own PG* variables away.
func clean(t *testing.T) {
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "PG") {
			t.Setenv(name, "")
			os.Unsetenv(name)
		}
	}
}

// Off this machine TLS is verified in full, unless somebody said otherwise.
func TestModeOfTLS(t *testing.T) {
	clean(t)
	service := filepath.Join(t.TempDir(), "service")
	if err := os.WriteFile(service, []byte("[a]\nhost=db.example\nsslmode=require\n[b]\nhost=db.example\nsslmode=prefer\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dsn, env string
		tls      *TLS
		want     string
	}{
		{"postgres://u@db.example/d", "", nil, "verified as db.example"},
		{"host=db.example user=u", "", nil, "verified as db.example"},
		{"host=10.1.2.3 user=u", "", nil, "verified as 10.1.2.3"},
		{"host=localhost,db.example user=u", "", nil, "verified as localhost"},
		{"postgres://u@db.example/d?sslmode=require", "", nil, "unverified"},
		{"postgres://u@db.example/d?sslmode=disable", "", nil, "plain"},
		{"postgres://u@db.example/d?sslmode=prefer", "", nil, "unverified or plain"},
		{"host=db.example", "PGSSLMODE=disable", nil, "plain"},
		{"", "PGHOST=db.example", nil, "verified as db.example"},
		{"service=a servicefile=" + service, "", nil, "unverified"},
		{"service=b servicefile=" + service, "", nil, "verified as db.example"},
		{"postgres://u@localhost/d", "", nil, "unverified or plain"},
		{"host=127.0.0.1", "", nil, "unverified or plain"},
		{"host=::1", "", nil, "unverified or plain"},
		{"host=/var/run/postgresql", "", nil, "plain"},
		{"postgres://u@127.0.0.1/d", "", &TLS{}, "verified as 127.0.0.1"},
		{"postgres://u@127.0.0.1/d", "", &TLS{ServerName: "db"}, "verified as db"},
		{"postgres://u@127.0.0.1/d", "", &TLS{InsecureSkipVerify: true, CAFile: "/none"}, "unverified"},
	} {
		t.Run(c.dsn+c.env, func(t *testing.T) {
			if name, v, ok := strings.Cut(c.env, "="); ok {
				t.Setenv(name, v)
			}
			cfg := Config{DSN: c.dsn, TLS: c.tls}
			p, err := cfg.parse()
			if err != nil {
				t.Fatal(err)
			}
			got := "plain"
			if tc := p.ConnConfig.TLSConfig; tc != nil {
				got = "verified as " + tc.ServerName
				if tc.InsecureSkipVerify {
					got = "unverified"
				}
				if plaintext(p.ConnConfig) {
					got += " or plain"
				}
			}
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestEmptyDSNIsTheEnvironment(t *testing.T) {
	clean(t)
	t.Setenv("PGHOST", "127.0.0.1")
	t.Setenv("PGPORT", "15432")
	t.Setenv("PGDATABASE", "shop")
	t.Setenv("PGUSER", "etl")
	t.Setenv("PGPASSWORD", "old")
	p, err := (&Config{Password: "new"}).parse()
	if err != nil {
		t.Fatal(err)
	}
	if c := p.ConnConfig; c.Host != "127.0.0.1" || c.Port != 15432 || c.Database != "shop" || c.User != "etl" || c.Password != "new" {
		t.Errorf("%s:%d %s %s %s", c.Host, c.Port, c.Database, c.User, c.Password)
	}
	if s := (&Config{}).System(); s != "127.0.0.1:15432/shop" {
		t.Error(s)
	}
}

func TestProblems(t *testing.T) {
	clean(t)
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{DSN: "host=127.0.0.1"}, ""},
		{Config{DSN: "postgres://u:canary@127.0.0.1/d"}, "postgres.password_in_dsn"},
		{Config{DSN: "host=127.0.0.1 password=canary"}, "postgres.password_in_dsn"},
		{Config{DSN: "postgres://u@127.0.0.1/d?password=canary"}, "postgres.password_in_dsn"},
		{Config{DSN: "postgres://u:can ary@h:x/d"}, "postgres.password_in_dsn postgres.dsn"},
		{Config{DSN: "port=seven"}, "postgres.dsn"},
		{Config{DSN: "postgres://u@h:99999/d"}, "postgres.dsn"},
		{Config{DSN: "postgres://u@h:port/d"}, "postgres.dsn"},
		{Config{DSN: "postgres://u:canary/9@h/d"}, "postgres.password_in_dsn postgres.dsn"},
		{Config{DSN: "host=127.0.0.1", MaxConnections: 1}, "postgres.connections"},
		{Config{DSN: "host=127.0.0.1", TLS: &TLS{CertFile: "a"}}, "postgres.tls"},
		{Config{DSN: "host=127.0.0.1 sslmode=require", TLS: &TLS{}}, "postgres.tls"},
		{Config{DSN: "host=127.0.0.1", TLS: &TLS{CAFile: "/none.pem"}}, "postgres.tls"},
	} {
		var got []string
		for _, err := range c.cfg.Problems() {
			if stream.ClassOf(err) != stream.BadConfig {
				t.Errorf("class of %v", err)
			}
			if strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "can ary") {
				t.Errorf("shown: %v", err)
			}
			got = append(got, stream.CodeOf(err))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v: %v, want %s", c.cfg, got, c.want)
		}
	}
	if s := fmt.Sprintf("%v %+v %#v", stream.Secret("canary"), Config{Password: "canary"}, stream.Secret("canary")); strings.Contains(s, "canary") {
		t.Error(s)
	}
}

// A successor must find the sessions of an attempt by name, whatever the job is called.
func TestApplication(t *testing.T) {
	l := stream.Lineage{1, 2, 3, 4}
	a := Application(l, 7, "job", "out")
	if a != "etl 01020304 7 job/out" {
		t.Error(a)
	}
	long := Application(l, 4000000000, strings.Repeat("日", 40), "out")
	if len(long) > 63 || !utf8.ValidString(long) || !strings.HasPrefix(long, "etl 01020304 4000000000 ") {
		t.Error(long)
	}
}
