package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"etl/config"
	"etl/config/kafka"
	"etl/deadletter"
	"etl/stream"
	"etl/transform"
)

// dlqFlags are the flags that select dead letters.
type dlqFlags struct {
	sink              string
	components, codes []string
	since             string
	limit             int
}

func (a *app) dlqCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dlq",
		Short: "list, show and replay dead letters, while the job runs or not",
		Long: `Reads what a sink of dead letters has written and committed: records that a component
with on_error: dead_letter could not process. It reads a Kafka topic of records, a
PostgreSQL table, and files of JSON lines. docs/dead-letters.md says what letters hold,
and which columns a table needs.`,
		Example: `  etl dlq ls pipeline.yaml --component priced --since 24h
  etl dlq show pipeline.yaml 0@17
  etl dlq replay pipeline.yaml --code json.syntax`,
	}
	cmd.AddCommand(a.dlqListCommand(), a.dlqShowCommand(), a.dlqReplayCommand())
	return group(cmd)
}

// selecting adds the flags that select letters.
func (f *dlqFlags) selecting(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringVar(&f.sink, "sink", "", "the sink of dead letters, when there are several")
	cmd.Flags().StringSliceVar(&f.components, "component", nil, "only those of these components")
	cmd.Flags().StringSliceVar(&f.codes, "code", nil, "only those with these error codes")
	cmd.Flags().StringVar(&f.since, "since", "", "only those of records since a time (2026-01-31T08:00:00Z), or for a duration (24h, 7d)")
	return cmd
}

func (a *app) dlqListCommand() *cobra.Command {
	var f dlqFlags
	cmd := &cobra.Command{Use: "ls FILE", Short: "list dead letters, the newest last, and count them by component and code", Args: oneFile,
		Example: "  etl dlq ls pipeline.yaml\n  etl dlq ls pipeline.yaml --code kafka.record_too_large --limit 5 --json",
		RunE:    func(cmd *cobra.Command, args []string) error { return a.listLetters(cmd, args[0], &f) }}
	cmd.Flags().IntVar(&f.limit, "limit", 100, "the most that are listed; all are counted")
	return f.selecting(cmd)
}

func (a *app) dlqShowCommand() *cobra.Command {
	var f dlqFlags
	cmd := &cobra.Command{Use: "show FILE PLACE", Short: "print one dead letter with its payload",
		Long: `Prints the dead letter at a place as etl dlq ls shows it in the column AT:
PARTITION@OFFSET in a topic, FILE@LINE in files, and in a table 16 digits that stand for
what the letter is about.`,
		Example: `  etl dlq show pipeline.yaml 0@17
  etl dlq show pipeline.yaml --sink rejected_rows 5a0c1f9be2d34478
  etl dlq show pipeline.yaml orders.rejects.9f31c2aa-00003-0000-00000017-0001.jsonl@4`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				return nil
			}
			return stream.Errorf(stream.BadConfig, "cli.arguments", "", "", "a pipeline file and the place of a letter are expected").WithFix("etl dlq show FILE PLACE, where PLACE is what etl dlq ls FILE shows as AT: PARTITION@OFFSET, FILE@LINE or an ID")
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.showLetter(cmd, args[0], args[1], &f) }}
	cmd.Flags().StringVar(&f.sink, "sink", "", "the sink of dead letters, when there are several")
	return cmd
}

// letter is one line of dlq ls.
type letter struct {
	Sink      string     `json:"sink"`
	At        string     `json:"at"` // as dlq show takes it
	Topic     string     `json:"topic"`
	Partition int32      `json:"partition"`
	Offset    int64      `json:"offset"`
	Time      *time.Time `json:"time,omitempty"`
	Component stream.UID `json:"component"`
	Code      string     `json:"code"`
	Message   string     `json:"message"`
	Made      bool       `json:"made,omitempty"`
	Bytes     int        `json:"bytes"`

	partition int32
	offset    int64
}

func newLetter(l *deadletter.Found) letter {
	out := letter{Sink: l.Sink, At: l.At, Topic: l.Topic, Partition: l.Letter.Partition, Offset: l.Letter.Offset,
		Component: l.Component, Code: l.Code, Message: l.Message, Made: l.Made, Bytes: len(l.Key) + len(l.Value), partition: l.Partition, offset: l.Offset}
	if l.Timestamp >= 0 {
		t := time.UnixMilli(l.Timestamp).UTC()
		out.Time = &t
	}
	return out
}

// lettersCount counts those of one component and code.
type lettersCount struct {
	Component stream.UID `json:"component"`
	Code      string     `json:"code"`
	Letters   int64      `json:"letters"`
}

// lettersList is the result of dlq ls.
type lettersList struct {
	Letters []letter       `json:"letters"`
	Counts  []lettersCount `json:"counts"`
	Total   int64          `json:"total"`
	// Others are records, rows and lines that are no dead letters.
	Others int64 `json:"others,omitempty"`
	// LeftOut are the sinks whose letters cannot be read back.
	LeftOut []string `json:"sinks_left_out,omitempty"`
}

func (a *app) listLetters(cmd *cobra.Command, file string, f *dlqFlags) error {
	job, err := a.load(file)
	if err != nil {
		return err
	}
	filter, err := f.filter(a.world.Clock.Now())
	if err != nil {
		return err
	}
	sinks, unread, err := letterSinks(job, f.sink)
	if err != nil {
		return err
	}
	ctx, cancel := a.patient(cmd)
	defer cancel()
	r := lettersList{Letters: []letter{}, LeftOut: slices.Sorted(maps.Keys(unread))}
	counts := map[lettersCount]int64{}
	for _, s := range sinks {
		others, err := s.Read(ctx, a.world, func(l *deadletter.Found) error {
			if filter.Takes(&l.Letter) {
				r.Total++
				counts[lettersCount{Component: l.Component, Code: strings.Clone(l.Code)}]++
				r.Letters = keepNewest(append(r.Letters, newLetter(l)), 2*f.limit, f.limit)
			}
			return nil
		})
		if err != nil {
			return err
		}
		r.Others += others
	}
	r.Letters = keepNewest(r.Letters, 0, f.limit)
	for k, n := range counts {
		k.Letters = n
		r.Counts = append(r.Counts, k)
	}
	slices.SortFunc(r.Counts, func(x, y lettersCount) int {
		return cmp.Or(cmp.Compare(y.Letters, x.Letters), cmp.Compare(x.Component, y.Component), cmp.Compare(x.Code, y.Code))
	})
	a.printLetters(&r)
	a.sayLeftOut(unread)
	return a.done(cmd, r)
}

// keepNewest cuts a list that is longer than most to its newest letters.
func keepNewest(ls []letter, most, limit int) []letter {
	if len(ls) <= most {
		return ls
	}
	slices.SortStableFunc(ls, func(x, y letter) int {
		return cmp.Or(timeOf(x).Compare(timeOf(y)), cmp.Compare(x.partition, y.partition), cmp.Compare(x.offset, y.offset))
	})
	return slices.Delete(ls, 0, max(0, len(ls)-max(limit, 0)))
}

func timeOf(l letter) time.Time {
	if l.Time == nil {
		return time.Time{}
	}
	return *l.Time
}

func (a *app) printLetters(r *lettersList) {
	if a.json {
		return
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	if len(r.Letters) > 0 {
		fmt.Fprintln(w, "AT\tTIME\tCOMPONENT\tCODE\tRECORD\tMESSAGE")
	}
	for _, l := range r.Letters {
		at, record := "", fmt.Sprintf("%s/%d@%d", l.Topic, l.Partition, l.Offset)
		if l.Time != nil {
			at = l.Time.Format(time.RFC3339)
		}
		if l.Made {
			record = "made of several"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", cell(l.At), at, cell(string(l.Component)), cell(l.Code), cell(record), cell(l.Message))
	}
	_ = w.Flush()
	a.print("%s\n", plural(int(r.Total), "dead letter"))
	for _, c := range r.Counts {
		a.print("  %d  %s  %s\n", c.Letters, cell(string(c.Component)), cell(c.Code))
	}
	if r.Others > 0 {
		a.print("%s among them that are no dead letters\n", plural(int(r.Others), "record"))
	}
}

// errFound ends a reading that has found what it looked for.
var errFound = stream.Errorf(stream.Failed, "dlq.found", "", "", "found")

func (a *app) showLetter(cmd *cobra.Command, file, place string, f *dlqFlags) error {
	job, err := a.load(file)
	if err != nil {
		return err
	}
	from, _, err := a.letterSink(job, f.sink)
	if err != nil {
		return err
	}
	if form := from.Form(); !regexp.MustCompile(form.Pattern).MatchString(place) {
		return stream.Errorf(stream.BadConfig, "cli.place", "", "", "%q is not the place of a letter in %s", place, from.Place()).WithFix("write %s, as etl dlq ls FILE shows it", form.Words)
	}
	ctx, cancel := a.patient(cmd)
	defer cancel()
	var found json.RawMessage
	_, err = from.Read(ctx, a.world, func(l *deadletter.Found) error {
		if l.At != place {
			return nil
		}
		found = transform.AppendLetter(nil, &l.Letter)
		if !a.json {
			a.printLetter(l)
		}
		return errFound
	})
	switch {
	case found != nil:
		return a.done(cmd, found)
	case err != nil:
		return err
	}
	return stream.Errorf(stream.Failed, "dlq.no_letter", "show dead letter", place, "there is no dead letter at this place of %s", from.Place()).WithFix("list them with: etl dlq ls %s", file)
}

func (a *app) printLetter(l *deadletter.Found) {
	x := newLetter(l)
	a.print("at         %s in %s\n", x.At, l.Sink)
	a.print("record     %s/%d@%d\n", cell(x.Topic), x.Partition, x.Offset)
	if x.Time != nil {
		a.print("time       %s\n", x.Time.Format(time.RFC3339Nano))
	}
	a.print("component  %s\ncode       %s\nmessage    %s\n", cell(string(x.Component)), cell(x.Code), cell(x.Message))
	if x.Made {
		a.print("made       of several records; replay leaves it out\n")
	}
	a.print("key        %s\n", payload(l.Key))
	for _, h := range l.Headers {
		a.print("header     %s: %s\n", cell(h.Key), payload(h.Value))
	}
	a.print("value      %s\n", payload(l.Value))
}

// payload is printable for bytes, of which there may be none.
func payload(b []byte) string {
	if b == nil {
		return "null"
	}
	return printable(string(b))
}

// printable returns a text so that it does nothing to a terminal: who writes into a store
// of letters may not be who reads them.
func printable(s string) string { return quoted(s, "\n\t") }

// cell is printable for a field in a line, which must not begin another line or column.
func cell(s string) string { return quoted(s, "") }

// quoted quotes a text with characters that do something, but for those of but.
func quoted(s, but string) string {
	does := func(r rune) bool {
		return unicode.IsControl(r) && !strings.ContainsRune(but, r) || unicode.Is(unicode.Bidi_Control, r) || r == '\ufffd'
	}
	if strings.ContainsFunc(s, does) {
		return fmt.Sprintf("%q", s)
	}
	return s
}

// filter reads the flags; now is what durations count from.
func (f *dlqFlags) filter(now time.Time) (deadletter.Filter, error) {
	out := deadletter.Filter{Components: f.components, Codes: f.codes}
	if f.since == "" {
		return out, nil
	}
	t, err := time.Parse(time.RFC3339, f.since)
	if err == nil {
		out.Since = t
		return out, nil
	}
	d, err := config.ParseDuration(f.since)
	if err != nil || now.IsZero() {
		return out, stream.Errorf(stream.BadConfig, "cli.since", "", "", "--since %q is not a time", f.since).WithFix("write it as 2026-01-31T08:00:00Z; for ls, also as a duration such as 24h")
	}
	out.Since = now.Add(-d.Std())
	return out, nil
}

// replay says what the flags ask for, and which sinks it leaves out.
func (a *app) replay(ctx context.Context, job *config.Job, f *dlqFlags) (r *deadletter.Replay, leftOut []string, err error) {
	from, leftOut, err := a.letterSink(job, f.sink)
	if err != nil {
		return nil, nil, err
	}
	filter, err := f.filter(time.Time{})
	if err != nil {
		return nil, nil, err
	}
	return &deadletter.Replay{Job: job.Spec.Name, From: from, Clusters: kafka.SourcesOf(job), Filter: filter}, leftOut, ctx.Err()
}
