package integration

import (
	"strings"
	"testing"
	"time"

	"etl/internal/kafkatest"
)

// A single broker with the settings of a cluster cannot hold the topic of the
// transaction coordinator: the job says so, and which settings are meant (K37).
func TestStockBroker(t *testing.T) {
	t.Parallel()
	b := kafkatest.Start(t, kafkatest.Config{Properties: map[string]string{
		"transaction.state.log.replication.factor": "3", "transaction.state.log.min.isr": "2"}})
	in, out := b.Topic(t, 1), b.Topic(t, 1)
	j := newJob(t, b, copying, "IN="+in, "OUT="+out)
	began := time.Now()
	a := j.etl("run")
	if a.Code != 3 || !strings.Contains(a.All, "transaction.state.log.replication.factor") || !strings.Contains(a.All, "transaction.state.log.min.isr") {
		t.Errorf("exit %d\n%s", a.Code, a.All)
	}
	t.Logf("after %v", time.Since(began).Round(time.Second))
}
