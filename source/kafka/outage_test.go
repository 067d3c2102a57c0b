package kafka

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"etl/internal/kafkaconn"
	"etl/internal/kafkatest"
	"etl/stream"
)

// TestBrokerKilled: the broker dies under the reader and comes back, several times;
// readers that stay and readers that restart see every record once (S17).
func TestBrokerKilled(t *testing.T) {
	t.Parallel() // it waits for the broker
	k := kafkatest.Start(t, kafkatest.Config{})
	b := newReal(t, k)
	topic := b.topic(2)
	c := b.config(topic, batches(7))
	stays, restarts := b.reader(c, b.splits(c, nil)), b.reader(c, b.splits(c, nil))
	var want, one, two []string
	for round := range 3 {
		x := b.producer("x")
		var v []string
		for i := range 40 {
			v = append(v, fmt.Sprint(round, "-", i))
		}
		want = append(want, v...)
		b.txn(x, true, topic, 2, v...)
		b.txn(x, false, topic, 2, "LOST0", "LOST1")
		x.Close()
		b.stable(topic) // a coordinator that dies before it wrote the markers may never write them
		half, _ := b.read(stays, atLeast(10))
		other, _ := b.read(restarts, atLeast(20))
		k.Kill(t)
		position := restarts.Splits()
		if err := restarts.Close(); err != nil {
			t.Fatal(err)
		}
		k.Restart(t)
		restarts = b.reader(c, b.splits(c, position))
		rest, _ := b.read(stays, atLeast(40-len(half)))
		more, _ := b.read(restarts, atLeast(40-len(other)))
		one, two = append(one, texts(half, rest)...), append(two, texts(other, more)...)
	}
	for name, seen := range map[string][]string{"stays": one, "restarts": two} {
		slices.Sort(seen)
		slices.Sort(want)
		if !slices.Equal(seen, want) {
			t.Errorf("the reader that %s read %d records of %d", name, len(seen), len(want))
		}
	}
}

func texts(gots ...[]got) (out []string) {
	for _, g := range slices.Concat(gots...) {
		out = append(out, g.value)
	}
	return out
}

// TestSecureBroker: TLS with a client certificate and SCRAM, enumerator and reader.
func TestSecureBroker(t *testing.T) {
	t.Parallel() // it waits for the broker
	k := kafkatest.Start(t, kafkatest.Config{Secure: true})
	b := newReal(t, k)
	topic := b.topic(1)
	b.produce(topic, 0, "a", "b")
	s := k.Security()
	ca := writeFile(t, "ca.pem", s.CAPEM)
	for name, cluster := range map[string]kafkaconn.Config{
		"tls":   {SeedBrokers: []string{s.TLSAddr}, TLS: &kafkaconn.TLS{CAFile: ca, CertFile: writeFile(t, "cert.pem", s.CertPEM), KeyFile: writeFile(t, "key.pem", s.KeyPEM)}},
		"scram": {SeedBrokers: []string{s.SASLTLSAddr}, TLS: &kafkaconn.TLS{CAFile: ca}, SASL: &kafkaconn.SASL{Mechanism: kafkaconn.ScramSHA512, Username: kafkatest.User, Password: kafkatest.Password}},
	} {
		c := b.config(topic, until(Latest), func(c *Config) { c.Cluster = cluster })
		if records, _ := b.drain(c, b.splits(c, nil)); len(records) != 2 {
			t.Errorf("%s: read %v", name, records)
		}
	}
	c := b.config(topic, func(c *Config) {
		c.Cluster = kafkaconn.Config{SeedBrokers: []string{s.SASLAddr}, SASL: &kafkaconn.SASL{Mechanism: kafkaconn.Plain, Username: kafkatest.User, Password: "wrong"}}
	})
	_, err := b.discover(c, nil)
	refused(t, err, stream.Environment, "kafka.sasl")
	refused(t, b.failing(b.reader(c, []stream.Split{{Topic: topic, LeaderEpoch: -1, End: stream.Unbounded}})), stream.Environment, "kafka.sasl")
}

func writeFile(t *testing.T, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
