package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestMain lets scripts call etl: it is this very program.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"etl": main})
}

// patience is how long a script waits for what a job does in its own time.
const patience = time.Minute

// TestScripts runs every command as a user would, each script in a folder of its
// own with a broker of its own (kfake; KAFKA_BROKERS names it).
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
		Setup:         setupScript,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"topic": topicCmd, "produce": produceCmd, "consume": consumeCmd, "await": awaitCmd, "stranger": strangerCmd,
		},
	})
}

func setupScript(env *testscript.Env) error {
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		return err
	}
	env.Defer(c.Close)
	env.Setenv("KAFKA_BROKERS", c.ListenAddrs()[0])
	env.Setenv("ETL_DATA_DIR", env.WorkDir+"/data")
	env.Setenv("HOME", env.WorkDir)
	env.Setenv("NO_COLOR", "1")
	return nil
}

func scriptClient(ts *testscript.TestScript, opts ...kgo.Opt) *kgo.Client {
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(ts.Getenv("KAFKA_BROKERS")))...)
	ts.Check(err)
	ts.Defer(cl.Close)
	return cl
}

// topicCmd: topic NAME PARTITIONS
func topicCmd(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	_, err = kadm.NewClient(scriptClient(ts)).CreateTopic(context.Background(), int32(n), 1, nil, args[0])
	ts.Check(err)
}

// produceCmd: produce TOPIC FILE, one record for each line: key, tab, value; or a
// value alone.
func produceCmd(ts *testscript.TestScript, _ bool, args []string) {
	cl := scriptClient(ts, kgo.DefaultProduceTopic(args[0]))
	for _, line := range strings.Split(strings.TrimRight(ts.ReadFile(args[1]), "\n"), "\n") {
		r := &kgo.Record{Value: []byte(line)}
		if k, v, ok := strings.Cut(line, "\t"); ok {
			r.Key, r.Value = []byte(k), []byte(v)
		}
		ts.Check(cl.ProduceSync(context.Background(), r).FirstErr())
	}
}

// consumeCmd: consume TOPIC FILE [N] writes the committed records, one a line, sorted
// by partition and offset; for a job that is at work, it waits for N of them.
func consumeCmd(ts *testscript.TestScript, _ bool, args []string) {
	cl := scriptClient(ts, kgo.ConsumeTopics(args[0]), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.FetchMaxWait(50*time.Millisecond))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ends, err := kadm.NewClient(cl).ListCommittedOffsets(ctx, args[0])
	ts.Check(err)
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	missing := 0
	if len(args) > 2 {
		missing, err = strconv.Atoi(args[2])
		ts.Check(err)
	}
	var out bytes.Buffer
	for len(left) > 0 || missing > 0 {
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				fmt.Fprintf(&out, "%s\t%s\n", r.Key, r.Value)
				missing--
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
		if ctx.Err() != nil {
			ts.Fatalf("consume %s: not read are %v and %d records more; read is\n%s", args[0], left, missing, out.String())
		}
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), out.Bytes(), 0o600))
}

// strangerCmd: stranger NAME puts the address of a server that speaks HTTP into a variable.
// Not of Go's: that one waits for the end of a line.
func strangerCmd(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			_, _ = bufio.NewReader(c).Peek(1)
			_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
			_ = c.Close()
		}
	}()
	ts.Defer(func() { _ = l.Close() })
	ts.Setenv(args[0], l.Addr().String())
}

// awaitCmd: await PATTERN COMMAND ARGS repeats etl until it succeeds and prints the
// pattern: for a job that is starting in the background.
func awaitCmd(ts *testscript.TestScript, _ bool, args []string) {
	pattern := regexp.MustCompile(args[0])
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		err := ts.Exec("etl", args[1:]...)
		if err == nil && pattern.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("etl %s: %v", strings.Join(args[1:], " "), err)
		}
	}
}
