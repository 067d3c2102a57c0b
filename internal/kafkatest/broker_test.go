package kafkatest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"etl/internal/kafkatest"
	"etl/internal/testservice"
)

func TestMain(m *testing.M) {
	if os.Getenv("ETL_KAFKATEST_ORPHAN") == "1" {
		orphan()
		return
	}
	kafkatest.Main(m)
}

// The fact that two-phase commit to Kafka stands on: a transaction that was
// flushed and not ended survives a kill -9 of the broker, and whoever knows its
// producer id and epoch can commit it then.
func TestPreparedTransactionSurvivesKill(t *testing.T) {
	for _, version := range []int{2, 1} {
		t.Run(fmt.Sprintf("transaction.version=%d", version), func(t *testing.T) {
			b := kafkatest.Start(t, kafkatest.Config{TransactionVersion: version})
			if got, err := b.TransactionVersion(t.Context()); err != nil || got != version {
				t.Fatalf("transaction.version = %d, %v; want %d", got, err, version)
			}
			b.CreateTopic(t, "out", 2)
			end := prepare(t, b, "out", 5)
			b.Kill(t)
			if err := b.Ready(t.Context()); err == nil {
				t.Fatal("a killed broker answers")
			}
			b.Restart(t)
			if stable, all := offsets(t, b, "out"); stable != 0 || all != 5 {
				t.Fatalf("before the commit: %d records stable of %d, want 0 of 5", stable, all)
			}
			commit(t, b, end)
			if got := consume(t, b, "out", 5); got != 5 {
				t.Fatalf("read %d records after the commit, want 5", got)
			}
		})
	}
}

// prepare leaves a flushed transaction open and returns the request that commits it.
func prepare(t *testing.T, b *kafkatest.Broker, topic string, n int) *kmsg.EndTxnRequest {
	t.Helper()
	// A broker on a busy machine may be down for longer than kgo's 40 s.
	cl := b.Client(t, kgo.TransactionalID("id"), kgo.DefaultProduceTopic(topic), kgo.TransactionTimeout(10*time.Minute))
	// The client chooses the transaction protocol by its first answer from the broker, so it must have had one.
	if err := cl.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := cl.ProduceSync(t.Context(), kgo.StringRecord(fmt.Sprint(i))).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	pid, epoch, err := cl.ProducerID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = "id", pid, epoch, true
	return req
}

// commit repeats the request while the restarted coordinator loads. One version
// for all repeats: versions must not be mixed.
func commit(t *testing.T, b *kafkatest.Broker, req *kmsg.EndTxnRequest) {
	t.Helper()
	cl := b.Client(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		resp, err := req.RequestWith(ctx, cl)
		if err == nil && resp.ErrorCode == 0 {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("EndTxn: %+v, %v", resp, err)
		}
	}
}

func offsets(t *testing.T, b *kafkatest.Broker, topic string) (stable, all int64) {
	t.Helper()
	adm := b.Admin(t)
	committed, err := adm.ListCommittedOffsets(t.Context(), topic)
	if err := errors.Join(err, committed.Error()); err != nil {
		t.Fatal(err)
	}
	ends, err := adm.ListEndOffsets(t.Context(), topic)
	if err := errors.Join(err, ends.Error()); err != nil {
		t.Fatal(err)
	}
	for p, end := range ends[topic] {
		stable, all = stable+committed[topic][p].Offset, all+end.Offset
	}
	return stable, all
}

func consume(t *testing.T, b *kafkatest.Broker, topic string, n int) (got int) {
	t.Helper()
	cl := b.Client(t, kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for got < n && ctx.Err() == nil {
		got += cl.PollFetches(ctx).NumRecords()
	}
	return got
}

func TestPauseIsAHang(t *testing.T) {
	b := kafkatest.Start(t, kafkatest.Config{})
	b.Pause(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := b.Ready(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a frozen broker: %v, want a time-out", err)
	}
	b.Unpause(t)
	b.AwaitReady(t)
}

// The broker's own compressors are libraries of the machine inside of jars: a
// container has to have what they load.
func TestEveryCompression(t *testing.T) {
	b := kafkatest.Shared(t)
	for name, codec := range map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	} {
		topic := b.Topic(t, 1, "compression.type=producer")
		cl := b.Client(t, kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(codec), kgo.RecordRetries(3))
		if err := cl.ProduceSync(t.Context(), kgo.StringRecord(strings.Repeat("compressible ", 1000))).FirstErr(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		// Compressed anew, by the broker.
		again := b.Topic(t, 1, "compression.type="+strings.Replace(name, "none", "uncompressed", 1))
		cl = b.Client(t, kgo.DefaultProduceTopic(again), kgo.ProducerBatchCompression(kgo.GzipCompression()), kgo.RecordRetries(3))
		if err := cl.ProduceSync(t.Context(), kgo.StringRecord("x")).FirstErr(); err != nil {
			t.Errorf("to %s: %v", name, err)
		}
	}
}

func TestSharedIsOne(t *testing.T) {
	a, b := kafkatest.Shared(t), kafkatest.Shared(t)
	if a.Addr() != b.Addr() {
		t.Errorf("two shared brokers: %s, %s", a.Addr(), b.Addr())
	}
	if x, y := a.Topic(t, 1), b.Topic(t, 1); x == y {
		t.Errorf("one topic name twice: %s", x)
	}
}

func TestForeignBrokerIsLeftAlone(t *testing.T) {
	s := kafkatest.Shared(t)
	t.Setenv("ETL_TEST_KAFKA", s.Addr())
	t.Setenv("ETL_TEST_VIA", "")
	f, err := kafkatest.Run(t.Context(), kafkatest.Config{})
	if err != nil || f.Via() != testservice.ViaForeign || f.Addr() != s.Addr() {
		t.Fatalf("got %v, %v; want the broker of the environment", f, err)
	}
	if err := f.Kill(t.Context()); !errors.Is(err, testservice.ErrForeign) {
		t.Errorf("kill: %v", err)
	}
	if err := f.Stop(); err != nil {
		t.Error(err)
	}
	s.AwaitReady(t)
	if _, err := kafkatest.Run(t.Context(), kafkatest.Config{TransactionVersion: 1}); err == nil {
		t.Error("a foreign broker was taken for one with transaction.version=1")
	}
}

// orphan is the other program of the next test.
func orphan() {
	s, err := kafkatest.Run(context.Background(), kafkatest.Config{})
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	fmt.Println(s.Addr())
	select {}
}

func TestBrokerDiesWithItsProgram(t *testing.T) {
	if b := kafkatest.Shared(t); b.Via() == testservice.ViaForeign {
		testservice.Skip(t, kafkatest.Tier, "kill: %v", testservice.ErrForeign)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "ETL_KAFKATEST_ORPHAN=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	killErr := cmd.Process.Kill()
	_ = cmd.Wait()
	addr := strings.TrimSpace(line)
	if err != nil || killErr != nil || strings.HasPrefix(addr, "error") {
		t.Fatalf("the other program said %q, %v, %v", line, err, killErr)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.RequestRetries(0), kgo.RetryTimeout(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for deadline := time.Now().Add(time.Minute); cl.Ping(t.Context()) == nil; {
		if time.Now().After(deadline) {
			t.Fatal("the broker outlives its program")
		}
	}
}
