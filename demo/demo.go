package demo

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"etl/internal/kafkaconn"
	"etl/stream"
	"etl/verify"
)

// Options say what is shown. The zero value of a field means its default.
type Options struct {
	// Out takes what is shown to people. Required; io.Discard for nothing.
	Out io.Writer
	// Start starts the worker. Required.
	Start Starter
	// Kills is how often the worker is killed; default 5. NoKills for none.
	Kills int
	// Seed fixes the input and the points of the kills; default 1.
	Seed uint64
	// Records is the number of input lines; default 50,000.
	Records int64
	// AtLeastOnce runs the pipeline without transactions, to show what they are for.
	AtLeastOnce bool
	// Clock is the time; default the system's.
	Clock stream.Clock

	points []point // instead of those that the seed gives
}

// NoKills as Options.Kills kills nothing.
const NoKills = -1

func (o *Options) withDefaults() {
	switch o.Kills {
	case 0:
		o.Kills = 5
	case NoKills:
		o.Kills = 0
	}
	if o.Seed == 0 {
		o.Seed = 1
	}
	if o.Records == 0 {
		o.Records = 50_000
	}
	if o.Clock == nil {
		o.Clock = stream.SystemClock{}
	}
}

// Result is what a demo has shown: the object of --json.
type Result struct {
	Guarantee string `json:"guarantee"`
	// Records are input lines, Rows the counts written for their words.
	Records int64  `json:"records"`
	Rows    int64  `json:"rows"`
	Seed    uint64 `json:"seed"`
	// Kills are the points at which the worker was killed, in order; Restored the
	// checkpoints it went on from.
	Kills      []string `json:"kills"`
	Restored   []string `json:"restored"`
	Missing    int64    `json:"missing"`
	Duplicated int64    `json:"duplicated"`
	// OK says that the guarantee held. For at-least-once that is nothing missing and
	// something duplicated: without duplicates the run would have shown nothing.
	OK      bool           `json:"ok"`
	Seconds float64        `json:"seconds"`
	Recount *verify.Result `json:"recount"`
}

// run is one demo.
type run struct {
	o       Options
	rand    *rand.Rand
	points  []point
	dir     string
	file    string
	address string
	conn    kafkaconn.Config
	gen     *generator
	watch   *verify.Watcher
	began   time.Time
	out     *lineWriter
	result  Result
	attempt int
}

// Run runs a demo until it has an outcome or ctx ends. An outcome that is not OK is
// no error. It starts a broker, processes and a temporary folder, all of which are
// gone when it returns.
func Run(ctx context.Context, o Options) (*Result, error) {
	o.withDefaults()
	r := &run{o: o, rand: rand.New(rand.NewPCG(o.Seed, 2)), began: o.Clock.Now(), out: &lineWriter{w: o.Out}}
	r.result = Result{Guarantee: "exactly-once", Records: o.Records, Seed: o.Seed, Kills: []string{}, Restored: []string{}}
	if o.AtLeastOnce {
		r.result.Guarantee = "at-least-once"
	}
	if r.points = o.points; r.points == nil {
		r.points = r.plan(o.Kills)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, linesTopic, countsTopic))
	if err != nil {
		return nil, stream.Errorf(stream.Environment, "demo.broker", "start the broker", "", "%w", err)
	}
	defer cluster.Close()
	r.address = cluster.ListenAddrs()[0]
	r.conn = kafkaconn.Config{SeedBrokers: []string{r.address}}
	r.introduce()
	if r.dir, err = os.MkdirTemp("", "etl-demo-"); err != nil {
		return nil, stream.Errorf(stream.Environment, "demo.folder", "make a temporary folder", os.TempDir(), "%w", err)
	}
	defer os.RemoveAll(r.dir)
	r.file = filepath.Join(r.dir, "word-count.yaml")
	if err := os.WriteFile(r.file, []byte(r.pipelineFile()), 0o600); err != nil {
		return nil, stream.Errorf(stream.Environment, "demo.folder", "write the pipeline file", r.file, "%w", err)
	}
	if err := r.show(ctx, cancel); err != nil {
		return nil, err
	}
	return &r.result, nil
}

// show runs generator, watcher and worker, and then the recount.
func (r *run) show(ctx context.Context, cancel context.CancelFunc) (err error) {
	cl, err := r.conn.NewClient(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer cl.Close()
	if r.watch, err = verify.Watch(ctx, r.conn, countsTopic); err != nil {
		return err
	}
	r.gen = &generator{cl: cl, clock: r.o.Clock, text: newText(r.o.Seed), total: r.o.Records, kills: int64(len(r.points))}
	background := r.background(ctx)
	err = r.lives(ctx)
	if err != nil {
		cancel()
	}
	genErr := background()
	if err == nil {
		err = genErr
	}
	r.watch.Stop()
	if err != nil {
		return err
	}
	return r.recount(ctx)
}

// background starts generator and progress; the function it returns waits for their
// end.
func (r *run) background(ctx context.Context) func() error {
	ctx, stop := context.WithCancel(ctx)
	gen, progress := make(chan error, 1), make(chan struct{})
	go func() { gen <- r.gen.run(ctx) }()
	go func() {
		defer close(progress)
		r.progress(ctx)
	}()
	return func() error {
		err := <-gen
		stop()
		<-progress
		return err
	}
}

// lives starts the worker, and again after each death, until it ends by itself.
func (r *run) lives(ctx context.Context) error {
	for _, p := range r.points {
		done, err := r.life(ctx, &p)
		if err != nil || done {
			return err
		}
	}
	_, err := r.life(ctx, nil)
	return err
}

// patience is how long a life may last before it is ended from outside, or given up. A busy
// machine takes ten seconds for what another does in one, and is to show the same kills.
const (
	killPatience = 40 * time.Second
	lastPatience = 2 * time.Minute
)

// life runs the worker once, to be killed at a point, or to its end. done is true when
// it has ended by itself.
func (r *run) life(ctx context.Context, p *point) (done bool, err error) {
	r.attempt++
	s := &story{restored: r.restored}
	c := Command{Args: []string{"--data-dir", r.dir, "run", r.file}, Out: s}
	patience := lastPatience
	if p != nil {
		c.Env, patience = []string{fmt.Sprintf("ETL_FAULT=%s:%d:kill", p.name, p.pass)}, killPatience
	}
	proc, err := r.o.Start.Start(ctx, c)
	if err != nil {
		return false, stream.Errorf(stream.Environment, "demo.worker", "start the worker", "", "%w", err)
	}
	wait, cancel := context.WithCancel(ctx)
	late := make(chan bool, 1)
	go func() {
		slept := r.o.Clock.Sleep(wait, patience) == nil
		if slept || ctx.Err() != nil {
			proc.Kill()
		}
		late <- slept
	}()
	exit := proc.Wait()
	cancel()
	return r.ended(ctx, p, exit, <-late, s)
}

// ended says how a life ended.
func (r *run) ended(ctx context.Context, p *point, exit Exit, late bool, s *story) (done bool, err error) {
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case exit.Killed && p != nil:
		name, where := p.name, p.where
		if late {
			name, where = "any moment", fmt.Sprintf("it did not come to %s", p.name)
		}
		r.result.Kills = append(r.result.Kills, name)
		r.gen.killed.Add(1)
		r.say("killed: kill -9 at %s (%s)", name, where)
		return false, nil
	case exit.Code == 0 && !exit.Killed:
		return true, nil
	}
	return false, stream.Errorf(stream.Failed, "demo.worker", "run the worker", fmt.Sprintf("start %d", r.attempt), "it ended with exit code %d (killed: %v); its last words:\n%s", exit.Code, exit.Killed, s.last())
}
