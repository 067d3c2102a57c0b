package integration

import (
	"strings"
	"testing"

	"etl/internal/kafkatest"
)

// What the brokers do not allow is refused before the first record, with the
// numbers (K07); so is a topic that is not there.
func TestRefusedByTheCluster(t *testing.T) {
	t.Parallel()
	b := kafkatest.Shared(t)
	in, out := b.Topic(t, 1), b.Topic(t, 1)
	j := newJob(t, b, strings.Replace(copying, "compression: zstd", "transaction_timeout: 20m", 1), "IN="+in, "OUT="+out)
	produce(t, b, in, values(0, "a")...)
	a := j.etl("run")
	if a.Code != 2 || !strings.Contains(a.All, "kafka.timeout_above_broker_maximum") || !strings.Contains(a.All, "20m0s") || !strings.Contains(a.All, "transaction.max.timeout.ms=900000") {
		t.Errorf("exit %d\n%s", a.Code, a.All)
	}

	for _, missing := range []string{"IN", "OUT"} {
		k := newJob(t, b, copying, "IN="+in, "OUT="+out)
		k.set(missing + "=" + in + "-missing")
		if a := k.etl("run"); a.Code != 3 || !strings.Contains(a.All, "kafka.topic_missing") || !strings.Contains(a.All, in+"-missing") {
			t.Errorf("%s is missing: exit %d\n%s", missing, a.Code, a.All)
		}
	}
	exactly(t, b, out)
}
