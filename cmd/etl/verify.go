package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"etl/stream"
	"etl/verify"
)

// verifyFlags are the flags of verify.
type verifyFlags struct {
	until, from, sinkFrom []string
	received, putAside    []string
	finished              bool
	settle                time.Duration
}

func (a *app) verifyCommand() *cobra.Command {
	var f verifyFlags
	cmd := &cobra.Command{
		Use:   "verify FILE",
		Short: "recount the output from the input",
		Long: `Reads the source topics and what the sinks wrote, and computes anew what they must
hold. It shares the expression language with the engine and nothing else, and reads
neither checkpoints nor counters. Missing, duplicated, altered and misplaced rows are
counted; rows not yet written by a running job are "behind", not missing.

An HTTP endpoint cannot be asked what it has. Its sink is left out, and the result says
so, unless --received names files in which the endpoint wrote down what it took. Exit
code 0 says that everything in "checked" holds, and nothing of what is left out.`,
		Example: `  etl verify pipeline.yaml
  etl verify pipeline.yaml --finished          # the job has ended: nothing may be behind
  etl verify pipeline.yaml --from orders/0=1200 --from orders/1=980   # where a start: latest began
  etl verify pipeline.yaml --received hook=taken.jsonl   # what the endpoint of the sink hook took, one row a line`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error { return a.verify(cmd, args[0], f) },
	}
	cmd.Flags().StringSliceVar(&f.until, "until", nil, "topic/partition=offset: demand rows only for records before it")
	cmd.Flags().StringSliceVar(&f.from, "from", nil, "topic/partition=offset: where the job began, for start: latest")
	cmd.Flags().StringSliceVar(&f.sinkFrom, "sink-from", nil, "topic/partition=offset: where the job's rows begin in a topic that held others before")
	cmd.Flags().StringArrayVar(&f.received, "received", nil, "sink=file: what the endpoint of an http sink took, one row a line; a pattern for several files")
	cmd.Flags().StringArrayVar(&f.putAside, "put-aside", nil, "sink=file: rows that the endpoint refused and the sink put aside, which need not be received; a pattern for several files")
	cmd.Flags().BoolVar(&f.finished, "finished", false, "the job has ended: rows that are behind and open transactions are faults")
	cmd.Flags().DurationVar(&f.settle, "settle", 5*time.Second, "repeat a recount that finds anything wrong for so long: a job may be committing")
	return cmd
}

func (a *app) verify(cmd *cobra.Command, file string, f verifyFlags) error {
	job, err := a.load(file)
	if err != nil {
		return err
	}
	spec, err := recountSpec(job)
	if err != nil {
		return err
	}
	if err := f.endpoints(&spec); err != nil {
		return err
	}
	o := verify.Options{Finished: f.finished, Settle: f.settle, Clock: a.world.Clock, Progress: a.progress()}
	from, err := places("--from", f.from)
	if err != nil {
		return err
	}
	for i := range spec.Sources {
		if s := &spec.Sources[i]; s.Start == "latest" && len(from) > 0 {
			s.StartOffsets = from
		}
	}
	if o.Until, err = places("--until", f.until); err != nil {
		return err
	}
	if o.SinkFrom, err = places("--sink-from", f.sinkFrom); err != nil {
		return err
	}
	ctx, cancel := a.patient(cmd)
	defer cancel()
	dialled(&spec, a.world.Dial)
	r, err := verify.Verify(ctx, spec, o)
	if stream.ClassOf(err) == stream.Retry { // nobody tries again here: a server is missing, no row
		err = stream.Errorf(stream.Environment, stream.CodeOf(err), "verify", job.Spec.Name, "%w", err)
	}
	if err != nil {
		return err
	}
	if !r.OK {
		err = stream.Errorf(stream.Failed, "verify.mismatch", "verify", job.Spec.Name, "missing %d, duplicated %d, altered %d, out of order %d",
			r.Missing, r.Duplicated, r.Altered, r.OutOfOrder)
	}
	if a.json {
		return a.object(cmd.CommandPath(), r, err)
	}
	if werr := r.Render(a.out); werr != nil {
		return werr
	}
	if err != nil {
		return shown{err}
	}
	return nil
}

// dialled makes a recount connect by dial.
func dialled(spec *verify.Spec, dial stream.Dialer) {
	for i := range spec.Sources {
		spec.Sources[i].Conn.Dial = dial
	}
	for i := range spec.Sinks {
		s := &spec.Sinks[i]
		s.Conn.Dial = dial
		if s.Append != nil {
			s.Append.Postgres.Conn.Dial = dial
		}
		if s.Last != nil && s.Last.Postgres != nil {
			s.Last.Postgres.Conn.Dial = dial
		}
	}
}

// endpoints gives the sinks the files of their endpoints.
func (f *verifyFlags) endpoints(spec *verify.Spec) error {
	take := func(flag string, values []string, files func(*verify.EndpointSink) *[]string) error {
		for _, v := range values {
			name, file, ok := strings.Cut(v, "=")
			i := slices.IndexFunc(spec.Sinks, func(s verify.Sink) bool { return s.Name == name && s.Endpoint != nil })
			if !ok || file == "" || i < 0 {
				return stream.Errorf(stream.BadConfig, "cli.received", "", "", "%s %q is not of the form sink=file with a sink of type http", flag, v).
					WithFix("for example %s hook=taken.jsonl", flag)
			}
			to := files(spec.Sinks[i].Endpoint)
			*to = append(*to, file)
		}
		return nil
	}
	if err := take("--received", f.received, func(e *verify.EndpointSink) *[]string { return &e.Received }); err != nil {
		return err
	}
	return take("--put-aside", f.putAside, func(e *verify.EndpointSink) *[]string { return &e.PutAside })
}

// progress says how far a long recount has come, once a second.
func (a *app) progress() func(verify.Progress) {
	last := a.world.Clock.Now()
	return func(p verify.Progress) {
		if now := a.world.Clock.Now(); now.Sub(last) >= time.Second {
			last = now
			a.say("%s: %d of about %d\n", p.Phase, p.Done, p.Total)
		}
	}
}

// places reads topic/partition=offset flags.
func places(flag string, values []string) (verify.Offsets, error) {
	out := verify.Offsets{}
	for _, v := range values {
		place, offset, ok := strings.Cut(v, "=")
		slash := strings.LastIndexByte(place, '/')
		if ok && slash > 0 {
			p, errP := strconv.ParseInt(place[slash+1:], 10, 32)
			n, errN := strconv.ParseInt(offset, 10, 64)
			if errP == nil && errN == nil {
				topic := place[:slash]
				if out[topic] == nil {
					out[topic] = map[int32]int64{}
				}
				out[topic][int32(p)] = n
				continue
			}
		}
		return nil, stream.Errorf(stream.BadConfig, "cli.offset", "", "", "%s %q is not of the form topic/partition=offset", flag, v).WithFix("%s", fmt.Sprintf("for example %s orders/0=1200", flag))
	}
	return out, nil
}
