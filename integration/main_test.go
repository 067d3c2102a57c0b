package integration

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"etl/internal/kafkatest"
	"etl/internal/pgtest"
	"etl/internal/redistest"
	"etl/internal/testservice"
)

// beside is how many tests run at the same time. They mostly wait.
const beside = "5"

func TestMain(m *testing.M) {
	if ran, code := tool(); ran {
		os.Exit(code)
	}
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set(beside)
	}
	code := kafkatest.Runner(pgtest.Runner(redistest.Runner(victims.Runner(stricts.Runner(m))))).Run()
	_ = os.RemoveAll(built.dir)
	os.Exit(code)
}

var built struct {
	once sync.Once
	dir  string
	err  error
}

// program is the path of the binary, built once for all tests of this process;
// ETL_TEST_PROGRAM names one that is built already.
func program(t testing.TB) string {
	t.Helper()
	if p := os.Getenv("ETL_TEST_PROGRAM"); p != "" {
		return p
	}
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "etl-integration-"); built.err != nil {
			return
		}
		cmd := exec.Command("go", "build", "-o", filepath.Join(built.dir, "etl"), "etl/cmd/etl")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("build the program: %w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.dir, "etl")
}

var (
	victims, stricts testservice.Shared[*kafkatest.Server]
	alone            sync.Mutex // held by the test that may mistreat the victim
)

// victim is a broker that the test may kill, freeze, put behind a bad network, and
// start again. The test has it for itself.
func victim(t testing.TB) *kafkatest.Broker {
	t.Helper()
	alone.Lock()
	t.Cleanup(alone.Unlock)
	return kafkatest.SharedAs(t, &victims, kafkatest.Config{Proxy: true})
}

// strict is a broker that checks rights and identities and forgets soon: ids of
// transactions after ten seconds, offsets of groups, and with them markers, after a
// minute.
func strict(t testing.TB) *kafkatest.Broker {
	t.Helper()
	return kafkatest.SharedAs(t, &stricts, kafkatest.Config{Secure: true, Properties: map[string]string{
		"authorizer.class.name":          "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"super.users":                    "User:ANONYMOUS",
		"transactional.id.expiration.ms": "10000",
		"transaction.remove.expired.transaction.cleanup.interval.ms":  "500",
		"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
		"offsets.retention.minutes":                                   "1",
		"offsets.retention.check.interval.ms":                         "1000",
	}})
}
