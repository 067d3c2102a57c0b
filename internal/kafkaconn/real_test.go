package kafkaconn

import (
	"os"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"etl/internal/kafkatest"
	"etl/stream"
)

// What a real broker's refusals are called.
func TestSecuredListeners(t *testing.T) {
	b := kafkatest.Start(t, kafkatest.Config{Secure: true})
	sec := b.Security()
	dir := t.TempDir()
	file := func(name string, pem []byte) string {
		if err := os.WriteFile(dir+"/"+name, pem, 0o600); err != nil {
			t.Fatal(err)
		}
		return dir + "/" + name
	}
	ca, cert, key := file("ca", sec.CAPEM), file("cert", sec.CertPEM), file("key", sec.KeyPEM)
	good := func(m string) *SASL { return &SASL{m, kafkatest.User, stream.Secret(kafkatest.Password)} }
	for name, tc := range map[string]struct {
		addr string
		tls  *TLS
		sasl *SASL
		code string
	}{
		"plaintext":              {b.Seeds()[0], nil, nil, ""},
		"tls":                    {sec.TLSAddr, &TLS{CAFile: ca}, nil, ""},
		"tls with a certificate": {sec.TLSAddr, &TLS{CAFile: ca, CertFile: cert, KeyFile: key}, nil, ""},
		"tls, any certificate":   {sec.TLSAddr, &TLS{InsecureSkipVerify: true}, nil, ""},
		"plain":                  {sec.SASLAddr, nil, good(Plain), ""},
		"scram-256":              {sec.SASLAddr, nil, good(ScramSHA256), ""},
		"scram-512 in tls":       {sec.SASLTLSAddr, &TLS{CAFile: ca}, good(ScramSHA512), ""},
		"untrusted":              {sec.TLSAddr, &TLS{}, nil, "kafka.tls"},
		"another name":           {sec.TLSAddr, &TLS{CAFile: ca, ServerName: "elsewhere"}, nil, "kafka.tls"},
		"tls to plaintext":       {b.Seeds()[0], &TLS{CAFile: ca}, nil, "kafka.tls"},
		"plaintext to tls":       {sec.TLSAddr, nil, nil, "kafka.tls"},
		"wrong password":         {sec.SASLAddr, nil, &SASL{ScramSHA256, kafkatest.User, "wrong"}, "kafka.sasl"},
		"wrong plain password":   {sec.SASLAddr, nil, &SASL{Plain, kafkatest.User, "wrong"}, "kafka.sasl"},
		"no authentication":      {sec.SASLAddr, nil, nil, "kafka.sasl"},
	} {
		cl := client(t, Config{SeedBrokers: []string{tc.addr}, TLS: tc.tls, SASL: tc.sasl}, kgo.RequestRetries(1), kgo.RetryTimeout(5*time.Second))
		_, err := ReadLimits(t.Context(), cl)
		if stream.CodeOf(err) != tc.code {
			t.Errorf("%s: %v, want code %q", name, err, tc.code)
		}
		cl.Close()
	}
}

func TestLimitsOfABroker(t *testing.T) {
	b := kafkatest.Shared(t)
	cl := client(t, Config{SeedBrokers: b.Seeds()})
	l, err := ReadLimits(t.Context(), cl)
	if want := (Limits{true, 15 * time.Minute, 7 * 24 * time.Hour, 7 * 24 * time.Hour}); err != nil || l != want {
		t.Errorf("%+v %v", l, err)
	}
	topic := b.Topic(t, 2, "max.message.bytes=2000", "message.timestamp.before.max.ms=60000")
	infos, err := ReadTopics(t.Context(), cl, topic)
	if err != nil || infos[0].MaxMessageBytes != 2000 || infos[0].Past != time.Minute || infos[0].Future != time.Hour || infos[0].Partitions != 2 {
		t.Errorf("%+v %v", infos, err)
	}
}
