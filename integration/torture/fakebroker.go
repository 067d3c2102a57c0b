package torture

import (
	"bufio"
	"fmt"
	"hash/fnv"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fakeEnv makes the test program a broker instead: its value is the port.
const fakeEnv = "ETL_TORTURE_KFAKE"

// The one user of the in-process broker; its password must never be seen in a log.
const (
	user        = "torture"
	passwordEnv = "ETL_TORTURE_PASSWORD"
)

// FakeBroker is the program of the in-process broker in a process of its own. It
// obeys lines on standard input and ends, keeping open transactions, when that is
// closed; killed, kfake would abort them, as no real broker does.
func FakeBroker() error {
	port, err := strconv.Atoi(os.Getenv(fakeEnv))
	if err != nil {
		return fmt.Errorf("%s: %w", fakeEnv, err)
	}
	opts := []kfake.Opt{kfake.NumBrokers(1), kfake.Ports(port), kfake.SleepOutOfOrder(), kfake.EnableSASL(),
		kfake.Superuser("PLAIN", user, os.Getenv(passwordEnv))}
	if dir := os.Getenv("ETL_TORTURE_KFAKE_DIR"); dir != "" {
		opts = append(opts, kfake.DataDir(dir))
	}
	c, err := kfake.NewCluster(opts...)
	if err != nil {
		return err
	}
	fmt.Println("up")
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		if err := obey(c, strings.Fields(in.Text())); err != nil {
			return err
		}
		fmt.Println("ok")
	}
	c.Close()
	return nil
}

// planned are the faults that were not met, perhaps.
var planned []*kfake.FaultHandle

// obey does one command: "refuse TOPIC" makes the fifth next write to a topic fail
// for good, "unmark" the next marker of a transaction; "slow DELAY" delays what every
// other transactional id produces, so that one producer of a sink lags behind the
// next; "calm" takes back what was not met.
func obey(c *kfake.Cluster, words []string) error {
	switch {
	case len(words) == 2 && words[0] == "refuse":
		later := 0
		planned = append(planned, c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: words[1], Err: kerr.InvalidRecord, Count: 1,
			When: func(kmsg.Request) bool { later++; return later > 4 }}))
	case len(words) == 1 && words[0] == "calm":
		for _, h := range planned {
			h.Remove()
		}
		planned = nil
	case len(words) == 1 && words[0] == "unmark":
		planned = append(planned, c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.TxnOffsetCommit}, Err: kerr.UnknownTopicID, Count: 1}))
	case len(words) == 2 && words[0] == "slow":
		delay, err := time.ParseDuration(words[1])
		if err != nil {
			return err
		}
		slow(c, delay)
	default:
		return fmt.Errorf("no such command: %v", words)
	}
	return nil
}

func slow(c *kfake.Cluster, delay time.Duration) {
	c.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if id := r.(*kmsg.ProduceRequest).TransactionID; id != nil && unlucky(*id) {
			c.SleepControl(func() { time.Sleep(delay) })
		}
		return nil, nil, false
	})
}

// unlucky is one of two transactional ids.
func unlucky(txid string) bool {
	h := fnv.New32a()
	_, _ = h.Write([]byte(txid))
	return h.Sum32()%2 == 1
}
