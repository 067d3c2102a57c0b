package integration

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// tools are stand-ins for those of Kafka's own tools that the examples name, as far
// as they use them: this program under another name, since each start of a JVM costs
// seconds.
var tools = map[string]func(context.Context, *kgo.Client, toolFlags) error{
	"kafka-topics.sh": func(ctx context.Context, cl *kgo.Client, f toolFlags) error {
		_, err := kadm.NewClient(cl).CreateTopic(ctx, int32(f.partitions), 1, nil, f.topic)
		return err
	},
	"kafka-console-producer.sh": func(ctx context.Context, cl *kgo.Client, f toolFlags) error {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			if err := cl.ProduceSync(ctx, &kgo.Record{Topic: f.topic, Value: []byte(in.Text())}).FirstErr(); err != nil {
				return err
			}
		}
		return nil
	},
	"kafka-console-consumer.sh": func(ctx context.Context, cl *kgo.Client, f toolFlags) error {
		cl.AddConsumeTopics(f.topic)
		for silent := false; !silent; { // as long as something comes
			part, cancel := context.WithTimeout(ctx, time.Duration(f.timeout)*time.Millisecond)
			fs := cl.PollFetches(part)
			silent = fs.NumRecords() == 0 && part.Err() != nil
			cancel()
			fs.EachRecord(func(r *kgo.Record) { fmt.Printf("%s\n", r.Value) })
		}
		return nil
	},
}

type toolFlags struct {
	server, topic, isolation string
	create, beginning        bool
	partitions, timeout      int
}

// tool runs the tool whose name this program was called by, if it was one.
func tool() (ran bool, code int) {
	f, name := toolFlags{}, filepath.Base(os.Args[0])
	run := tools[name]
	if run == nil {
		return false, 0
	}
	set := flag.NewFlagSet(name, flag.ExitOnError)
	set.StringVar(&f.server, "bootstrap-server", "", "")
	set.StringVar(&f.topic, "topic", "", "")
	set.StringVar(&f.isolation, "isolation-level", "", "")
	set.BoolVar(&f.create, "create", false, "")
	set.BoolVar(&f.beginning, "from-beginning", false, "")
	set.IntVar(&f.partitions, "partitions", 1, "")
	set.IntVar(&f.timeout, "timeout-ms", 1000, "")
	_ = set.Parse(os.Args[1:])                                                                                                   // it ends the program itself
	opts := []kgo.Opt{kgo.SeedBrokers(f.server), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.UnknownTopicRetries(40)} // one that was just made
	if f.isolation == "read_committed" {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	cl, err := kgo.NewClient(opts...)
	if err == nil {
		defer cl.Close()
		err = run(context.Background(), cl, f)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		return true, 1
	}
	return true, 0
}
