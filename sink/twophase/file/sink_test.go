package file

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"etl/checkpoint"
	"etl/checkpoint/memstore"
	"etl/expr"
	"etl/internal/fault"
	"etl/internal/simtest/crashfs"
	"etl/sink"
	"etl/stream"
)

// bench is one attempt of a job whose checkpoints are in memory.
type bench struct {
	*powered
	t     testing.TB
	store *memstore.Store
	fs    stream.FS
}

func newBench(t testing.TB, fs stream.FS, cfg Config) *bench {
	b := &bench{t: t, store: memstore.New("job"), fs: fs}
	return b.again(cfg)
}

// again starts the next attempt, without the recovery that a test wants to do itself.
func (b *bench) again(cfg Config) *bench {
	next := &bench{t: b.t, store: b.store, fs: b.fs, powered: &powered{fs: b.fs, committer: NewCommitter(cfg), writer: NewWriter(cfg)}}
	ctx := b.t.Context()
	var err error
	next.attempt, err = checkpoint.OpenAttempt(ctx, b.store, checkpoint.AttemptOptions{World: powerWorld(b.fs)})
	must(b.t, err)
	h := next.attempt.History()
	must(b.t, next.committer.Open(ctx, sink.CommitEnv{World: powerWorld(b.fs), Job: "job", Lineage: next.attempt.Lineage(), Attempt: next.attempt.Number(), UID: "out", Fresh: h.Newest() == nil}))
	must(b.t, next.writer.Open(ctx, stream.Env{World: powerWorld(b.fs), Job: "job", Lineage: next.attempt.Lineage(), Attempt: next.attempt.Number(), UID: "out"}, nil))
	return next
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// published takes a checkpoint of some rows and returns its committable.
func (b *bench) published(rows int) (checkpoint.Permit, checkpoint.Committable) {
	b.t.Helper()
	permit, cs, err := b.take(b.t.Context(), rows)
	must(b.t, err)
	if len(cs) != 1 {
		b.t.Fatalf("%d committables", len(cs))
	}
	return permit, cs[0]
}

func (b *bench) commits(permit checkpoint.Permit, c checkpoint.Committable, want sink.Outcome) {
	b.t.Helper()
	r, err := b.committer.Commit(b.t.Context(), permit, c)
	must(b.t, err)
	if r.Outcome != want {
		b.t.Fatalf("commit %s: %s (%s), want %s", c.Checkpoint, r.Outcome, r.Detail, want)
	}
}

func plainCfg() Config {
	return Config{Path: "/data/out", NewEncoder: func() Encoder { return rowEncoder(nil) }}
}

// finals are the part files readers see.
func finals(t testing.TB, f stream.FS, dir string) (names []string) {
	t.Helper()
	must(t, walk(f, dir, func(name string) error { names = append(names, name); return nil }))
	return names
}

// A consumer that takes finished files away does not make a repeated commit write them
// again, whoever repeats it, and after a restart.
func TestConsumerMovesFilesAway(t *testing.T) {
	disk := crashfs.New()
	cfg := plainCfg()
	cfg.RollSize = 1 // a file for each row
	b := newBench(t, disk, cfg)
	permit, c := b.published(5)
	killed := errors.New("the process died")
	moves := 0
	disk.OnOp(func(o crashfs.Op) error {
		if o.Kind == "renamenew" && strings.HasSuffix(o.Name, ".pending") {
			if moves++; moves > 3 {
				return killed
			}
		}
		return nil
	})
	if _, err := b.committer.Commit(t.Context(), permit, c); !errors.Is(err, killed) {
		t.Fatalf("the commit returned %v", err)
	}
	disk.OnOp(nil)
	taken := finals(t, disk, cfg.Path)
	if len(taken) != 3 {
		t.Fatalf("three files have moved; readers see %q", taken)
	}
	for _, name := range taken {
		must(t, disk.Remove(name))
	}
	next := b.again(cfg)
	got, err := next.committer.Probe(t.Context(), []checkpoint.Committable{c}, time.Time{})
	must(t, err)
	if got[0].Status != sink.Committed {
		t.Errorf("half a commit is %s", got[0].Status)
	}
	for range 2 { // restored twice
		p, err := next.attempt.Restored(permit.ID())
		must(t, err)
		r, err := next.committer.Commit(t.Context(), p, c)
		must(t, err)
		if r.Outcome != sink.Done && r.Outcome != sink.Already {
			t.Errorf("the commit says %s (%s)", r.Outcome, r.Detail)
		}
		next = next.again(cfg)
	}
	if left := finals(t, disk, cfg.Path); len(left) != 2 || slices.Contains(taken, left[0]) {
		t.Errorf("of five files three were taken away; readers see %q", left)
	}
}

// The same where a rename is a link and a removal, and the process dies in between.
func TestConsumerMovesFilesAwayBetweenTwoSteps(t *testing.T) {
	dir := fastDir(t)
	f, err := openRoot(filepath.Join(dir, "out"))
	must(t, err)
	f.(rooted).two.Store(true)
	cfg := plainCfg()
	cfg.Path = "."
	b := newBench(t, f, cfg)
	permit, c := b.published(4)
	p, err := decode(&c)
	must(t, err)
	b.committer.fs = f // below hides what the root knows of itself
	must(t, b.committer.decide(p, &c, b.committer.dirOf(&c)))
	must(t, f.Link(path.Join(b.committer.dirOf(&c), p.Files[0].Pending), p.Files[0].Final)) // here it dies
	must(t, os.Rename(filepath.Join(dir, "out", p.Files[0].Final), filepath.Join(dir, "taken")))
	b.commits(permit, c, sink.Done)
	if left := finals(t, f, "."); len(left) > 0 {
		t.Errorf("the file was taken away, and readers see %q again", left)
	}
}

// A file of the same name that is not the sink's is never replaced.
func TestStrangersFileStays(t *testing.T) {
	disk := crashfs.New()
	b := newBench(t, disk, plainCfg())
	permit, c := b.published(4)
	p, err := decode(&c)
	must(t, err)
	final := path.Join("/data/out", p.Files[0].Final)
	must(t, writeFile(disk, final, []byte("a stranger's")))
	if _, err := b.committer.Commit(t.Context(), permit, c); stream.CodeOf(err) != "file.name_taken" {
		t.Fatalf("the commit returned %v", err)
	}
	if got, err := readAll(disk, final); string(got) != "a stranger's" {
		t.Fatalf("the stranger's file holds %q, %v", got, err)
	}
	must(t, disk.Remove(final))
	b.commits(permit, c, sink.Done)
	b.commits(permit, c, sink.Already)
}

// A fence that meets an intent which was quicker leaves it, whatever the moment.
func TestFenceMeetsIntent(t *testing.T) {
	for _, point := range []string{"before the fence", "file.fence.named"} {
		disk := crashfs.New()
		b := newBench(t, disk, plainCfg())
		permit, c := b.published(4)
		next := b.again(plainCfg())
		p, err := decode(&c)
		must(t, err)
		dir := b.committer.dirOf(&c)
		decide := func() { must(t, b.committer.decide(p, &c, dir)) }
		if point == "before the fence" {
			decide()
		} else {
			// The zombie has looked, the fence takes the name away, the zombie writes its
			// intent into the directory it holds open: the same directory.
			disk.OnOp(func(o crashfs.Op) error { return nil })
			fault.Watch(func(name string) {
				if name == point {
					fault.Watch(nil)
					must(t, writeFile(disk, path.Join("/data/out", path.Dir(dir), dead+path.Base(dir), intent), []byte("{}\n")))
				}
			})
		}
		must(t, next.committer.Fence(t.Context(), []stream.Attempt{1}, nil))
		fault.Watch(nil)
		if id, err := next.committer.Marker(t.Context(), 0); err != nil || id != c.Checkpoint {
			t.Fatalf("%s: the marker is %s, %v", point, id, err)
		}
		b.commits(permit, c, sink.Done)
		if got, err := readRows(disk, "/data/out"); err != nil || len(got) != 4 {
			t.Errorf("%s: readers see %d rows, %v", point, len(got), err)
		}
	}
}

// Intents of retired checkpoints go, less the marker; what they prove is still known.
func TestOldIntentsGo(t *testing.T) {
	disk := crashfs.New()
	b := newBench(t, disk, plainCfg())
	var first checkpoint.Committable
	for i := range 5 {
		permit, c := b.published(3)
		b.commits(permit, c, sink.Done)
		if i == 0 {
			first = c
		}
		b.writer.Resolved(c.Checkpoint, true)
	}
	b.published(1) // prunes
	dirs, err := committed(b.committer.fs, b.committer.home, 0)
	must(t, err)
	if len(dirs) != 1 || dirs[0].n != 5 {
		t.Errorf("intents are kept for %v", dirs)
	}
	got, err := b.committer.Probe(t.Context(), []checkpoint.Committable{first}, time.Time{})
	must(t, err)
	if got[0].Status != sink.Committed || got[0].Marker != stream.NewCheckpointID(1, 5) {
		t.Errorf("the first checkpoint is %s, its lane's marker %s", got[0].Status, got[0].Marker)
	}
}

// Pending files that somebody has changed are not published (field bug C11).
func TestChangedPendingFileIsLost(t *testing.T) {
	disk := crashfs.New()
	b := newBench(t, disk, plainCfg())
	permit, c := b.published(4)
	p, err := decode(&c)
	must(t, err)
	name := path.Join("/data/out", b.committer.dirOf(&c), p.Files[0].Pending)
	must(t, disk.Remove(name))
	b.commits(permit, c, sink.Lost)
	must(t, writeFile(disk, name, []byte("{}\n")))
	b.commits(permit, c, sink.Lost)
	if got := finals(t, disk, "/data/out"); len(got) > 0 {
		t.Errorf("readers see %q", got)
	}
}

// Whatever a partition is called, its files lie in one directory below the path, and
// its name tells the value (field bug F05).
func TestPartitionsStayBelowThePath(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		value := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"../../x", "..", ".", "", "a/b", "a:b", "\x00", "\xff", "ä", "%2F", "x\ny"})).Draw(rt, "value")
		cfg := Config{PartitionBy: []string{"k", "l"}}
		r := Row{cfg: &cfg}
		r.reset()
		r.Partition(expr.StringValue(value))
		r.Partition(expr.NullValue())
		r.JSON([]byte("{}"))
		if err := r.finish(); err != nil {
			if len(value) < maxName/3-2 {
				rt.Fatalf("%q is refused: %v", value, err)
			}
			return
		}
		place := string(r.place)
		name, rest, _ := strings.Cut(strings.TrimSuffix(place, "/"), "/")
		if !filepath.IsLocal(place) || rest != "l="+nullPartition || strings.Trim(name[2:], plainPlace+"%"+alphanumeric) != "" {
			rt.Fatalf("%q gives %q", value, place)
		}
		if got := unescape(rt, strings.TrimPrefix(name, "k=")); got != value {
			rt.Fatalf("%q comes back as %q", value, got)
		}
	})
}

const alphanumeric = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

func unescape(t *rapid.T, s string) string {
	var out bytes.Buffer
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			out.WriteByte(s[i])
			continue
		}
		const hex = "0123456789ABCDEF"
		out.WriteByte(byte(strings.IndexByte(hex, s[i+1])<<4 | strings.IndexByte(hex, s[i+2])))
		i += 2
	}
	return out.String()
}

// A symbolic link does not lead a commit out of the sink's path.
func TestLinksLeadNowhere(t *testing.T) {
	dir := fastDir(t)
	out, elsewhere := filepath.Join(dir, "out"), filepath.Join(dir, "elsewhere")
	must(t, os.MkdirAll(out, 0o755))
	must(t, os.MkdirAll(elsewhere, 0o755))
	must(t, os.Symlink(elsewhere, filepath.Join(out, "k=k0")))
	cfg := plainCfg()
	cfg.Path, cfg.PartitionBy, cfg.NewEncoder = out, []string{"k"}, func() Encoder { return rowEncoder([]string{"k"}) }
	b := newBench(t, stream.SystemFS{}, cfg)
	permit, c := b.published(1)
	if _, err := b.committer.Commit(t.Context(), permit, c); err == nil {
		t.Error("a commit followed a link out of the path")
	}
	if got, err := os.ReadDir(elsewhere); err != nil || len(got) > 0 {
		t.Errorf("outside the path there are %v, %v", got, err)
	}
}

// Names are read exactly as they are written.
func TestDirNames(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := dirName{prefix: rapid.SampledFrom([]string{"", open, dead, dead + open}).Draw(rt, "prefix"), attempt: stream.Attempt(rapid.Uint32().Draw(rt, "attempt")),
			subtask: rapid.IntRange(0, 40000).Draw(rt, "subtask"), n: rapid.Uint32().Draw(rt, "n")}
		if got, ok := parseDir(d.String()); !ok || got != d {
			rt.Fatalf("%q is read as %+v, %v", d, got, ok)
		}
	})
	for _, name := range []string{"", "1-2", "01-2-3", "1-2-3-4", "+1-2-3", "open-open-1-2-3", "open-dead-1-2-3", "1-2-4294967296", "1-2-3 ", "etl"} {
		if d, ok := parseDir(name); ok {
			t.Errorf("%q is read as %+v", name, d)
		}
	}
}

// The age of a file ends it, whatever its size; so does the number of open ones.
func TestRoll(t *testing.T) {
	disk := crashfs.New()
	clock := &steps{Clock: stream.SystemClock{}, at: time.Unix(1_700_000_000, 0)}
	cfg := plainCfg()
	cfg.RollAge = time.Minute
	w := NewWriter(cfg)
	world := powerWorld(disk)
	world.Clock = clock
	must(t, w.Open(t.Context(), stream.Env{World: world, Job: "job", Lineage: stream.Lineage{1}, Attempt: 1, UID: "out"}, nil))
	write := func(n string) {
		b := stream.NewBatch(nil)
		b.Append(stream.Record{Key: []byte("k"), Value: []byte(n)})
		must(t, w.Write(t.Context(), b, nil))
	}
	write("0")
	clock.at = clock.at.Add(59 * time.Second)
	write("1")
	clock.at = clock.at.Add(time.Second)
	write("2") // ends the file it is in
	write("3")
	p, err := w.PrepareCommit(t.Context(), stream.NewCheckpointID(1, 1), nil)
	must(t, err)
	got, err := p.Finish(context.Background(), nil)
	must(t, err)
	files, err := decode(&got.Committables[0])
	must(t, err)
	if len(files.Files) != 2 || files.Files[0].Rows != 3 || files.Files[1].Rows != 1 {
		t.Errorf("four rows within 60 s are in files %+v", files.Files)
	}
}

type steps struct {
	stream.Clock
	at time.Time
}

func (s *steps) Now() time.Time { return s.at }
