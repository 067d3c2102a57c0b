package file

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	iofs "io/fs"
	"math/rand/v2"
	"path"
	"strings"
	"testing"

	"etl/checkpoint"
	"etl/checkpoint/filestore"
	"etl/internal/simtest/crashfs"
	"etl/sink"
	"etl/stream"
)

// A job on a disk: its checkpoints and its files lose power together.
type powered struct {
	fs        stream.FS
	attempt   *checkpoint.Attempt
	committer *Committer
	writer    *Writer
	at        int // the next row
	n         uint32
}

const (
	rowsEach  = 6 // of a checkpoint
	rowsWhole = 30
)

var outCfg = Config{Path: "/data/out", PartitionBy: []string{"k"}, RollSize: 40, NewEncoder: func() Encoder { return rowEncoder([]string{"k"}) }}

func powerWorld(fs stream.FS) stream.World {
	w := stream.SystemWorld(nil)
	w.FS = fs
	return w
}

// restart is the recovery, as short as one sink and one lane make it.
func restart(ctx context.Context, fs stream.FS) (*powered, error) {
	p := &powered{fs: fs}
	st, err := filestore.Open(powerWorld(fs), "/data/job")
	if err != nil {
		return nil, err
	}
	if p.attempt, err = checkpoint.OpenAttempt(ctx, st, checkpoint.AttemptOptions{World: powerWorld(fs)}); err != nil {
		return nil, err
	}
	h := p.attempt.History()
	p.committer, p.writer = NewCommitter(outCfg), NewWriter(outCfg)
	if err := p.committer.Open(ctx, sink.CommitEnv{World: powerWorld(fs), Job: "job", Lineage: p.attempt.Lineage(), Attempt: p.attempt.Number(), UID: "out",
		Fresh: h.Newest() == nil}); err != nil {
		return nil, err
	}
	if m := h.Newest(); m != nil {
		if err := p.recover(ctx, m); err != nil {
			return nil, err
		}
	}
	if err := p.committer.Fence(ctx, h.Owners(p.attempt.Number()), nil); err != nil {
		return nil, err
	}
	return p, p.writer.Open(ctx, stream.Env{World: powerWorld(fs), Job: "job", Lineage: p.attempt.Lineage(), Attempt: p.attempt.Number(), UID: "out"}, nil)
}

// recover probes and commits what the newest checkpoint lists.
func (p *powered) recover(ctx context.Context, m *checkpoint.Metadata) error {
	if _, err := fmt.Sscan(m.Kind, &p.at); err != nil {
		return err
	}
	switch id, err := p.committer.Marker(ctx, 0); {
	case err != nil:
		return err
	case id > m.ID:
		return fmt.Errorf("the marker %s is ahead of the newest checkpoint %s", id, m.ID)
	}
	probed, err := p.committer.Probe(ctx, m.Committables, m.PublishedAt)
	if err != nil {
		return err
	}
	permit, err := p.attempt.Restored(m.ID)
	if err != nil {
		return err
	}
	for i, c := range m.Committables {
		if probed[i].Status == sink.Gone {
			return fmt.Errorf("%s is published and gone: %s", c.Checkpoint, probed[i].Detail)
		}
		if err := p.commit(ctx, permit, c); err != nil {
			return err
		}
	}
	return nil
}

func (p *powered) commit(ctx context.Context, permit checkpoint.Permit, c checkpoint.Committable) error {
	r, err := p.committer.Commit(ctx, permit, c)
	if err == nil && r.Outcome != sink.Done && r.Outcome != sink.Already {
		err = fmt.Errorf("commit %s: %s (%s)", c.Checkpoint, r.Outcome, r.Detail)
	}
	return err
}

// take writes rows and takes a checkpoint up to its publication; the caller commits.
func (p *powered) take(ctx context.Context, rows int) (permit checkpoint.Permit, cs []checkpoint.Committable, err error) {
	b := stream.NewBatch(nil)
	for range rows {
		b.Append(stream.Record{Key: fmt.Appendf(nil, "k%d", p.at%2), Value: fmt.Append(nil, p.at)})
		p.at++
	}
	if err := p.writer.Write(ctx, b, nil); err != nil {
		return permit, nil, err
	}
	p.n++
	id := stream.NewCheckpointID(p.attempt.Number(), p.n)
	pending, err := p.writer.PrepareCommit(ctx, id, nil)
	if err != nil {
		return permit, nil, err
	}
	got, err := pending.Finish(ctx, nil)
	if err != nil {
		return permit, nil, err
	}
	// Kind carries the source's position here.
	permit, err = p.attempt.Publish(ctx, &checkpoint.Metadata{Version: checkpoint.MetadataVersion, Job: "job", Lineage: p.attempt.Lineage(), ID: id,
		Kind: fmt.Sprint(p.at), Mode: "exactly_once", MaxParallelism: 1, Committables: got.Committables})
	return permit, got.Committables, err
}

// life is the job from where it is to its last row.
func (p *powered) life(ctx context.Context) error {
	for p.at < rowsWhole {
		permit, cs, err := p.take(ctx, min(rowsEach, rowsWhole-p.at))
		if err != nil {
			return err
		}
		for _, c := range cs {
			if err := p.commit(ctx, permit, c); err != nil {
				return err
			}
		}
		p.writer.Resolved(stream.NewCheckpointID(p.attempt.Number(), p.n-1), true)
	}
	return nil
}

// judge restarts the job on what a crash left, and wants each row once in the end.
func judge(left *crashfs.FS) error {
	ctx := context.Background()
	p, err := restart(ctx, left)
	if err != nil {
		return err
	}
	if err := errors.Join(exactly(left, p.at), intentsWhole(left)); err != nil {
		return fmt.Errorf("after the restart: %w", err)
	}
	if err := p.life(ctx); err != nil {
		return err
	}
	if err := exactly(left, rowsWhole); err != nil {
		return fmt.Errorf("at the end: %w", err)
	}
	if rest, err := undone(left, outCfg.Path, "job"); err != nil || len(rest) > 0 {
		return fmt.Errorf("at the end there are still %q, %v", rest, err)
	}
	return nil
}

// intentsWhole wants every intent to say what it is about.
func intentsWhole(f stream.FS) error {
	home := path.Join(outCfg.Path, ".etl/job/out")
	lineages, err := list(f, home)
	for _, l := range lineages {
		epochs, lerr := epochsIn(f, path.Join(home, l))
		err = errors.Join(err, lerr)
		for _, d := range epochs {
			b, rerr := readAll(f, path.Join(home, l, d.String(), intent))
			var r record
			if rerr == nil && (json.Unmarshal(b, &r) != nil || r.Checkpoint != d.checkpoint() || r.Lineage.String() != l || len(r.Files) == 0) {
				err = errors.Join(err, fmt.Errorf("the intent in %s is %q", d, b))
			}
		}
	}
	return err
}

// exactly wants the rows below n, each once, those of a key in order.
func exactly(f stream.FS, n int) error {
	rows, err := readRows(f, outCfg.Path)
	if err != nil {
		return err
	}
	last := map[string]int{}
	for _, r := range rows {
		if before, ok := last[r.Key]; ok && r.N <= before {
			return fmt.Errorf("row %d comes after row %d", r.N, before)
		}
		last[r.Key] = r.N
	}
	if len(rows) != n || n > 1 && last["k0"]+last["k1"] != 2*n-3 {
		return fmt.Errorf("there are %d rows, up to %v, and should be the first %d", len(rows), last, n)
	}
	return nil
}

// cuts lives a job once and cuts the power at every operation of its disk, once so that
// all is lost that can be, and a few times by chance.
func cuts(wrap func(*crashfs.FS) stream.FS) (n int, err error) {
	disk := crashfs.New()
	for _, dir := range []string{"/data/job", "/data/out"} {
		if err := disk.MkdirAll(dir, 0o700); err != nil {
			return 0, err
		}
	}
	if err := errors.Join(disk.SyncDir("/"), disk.SyncDir("/data")); err != nil {
		return 0, err
	}
	c := &cutter{FS: wrap(disk)}
	c.cut = func(op string) {
		for seed := range uint64(4) {
			rnd := rand.New(rand.NewPCG(seed, uint64(n)))
			if seed == 0 {
				rnd = nil
			}
			n++
			if e := judge(disk.Crash(rnd)); e != nil && err == nil {
				err = fmt.Errorf("cut %d, at %s, seed %d: %w", n, op, seed, e)
			}
		}
	}
	ctx := context.Background()
	p, e := restart(ctx, c)
	if e == nil {
		e = p.life(ctx)
	}
	if e != nil && err == nil {
		err = fmt.Errorf("without a cut: %w", e)
	}
	c.cut("the end")
	return n, err
}

// cutter calls cut before every operation that changes the disk.
type cutter struct {
	stream.FS
	cut func(op string)
}

func (c *cutter) Create(name string, perm iofs.FileMode) (stream.File, error) {
	c.cut("create " + name)
	f, err := c.FS.Create(name, perm)
	return cutFile{f, c, name}, err
}

func (c *cutter) MkdirAll(dir string, perm iofs.FileMode) error {
	c.cut("mkdir " + dir)
	return c.FS.MkdirAll(dir, perm)
}

func (c *cutter) Link(a, b string) error {
	c.cut("link " + a)
	return c.FS.Link(a, b)
}

func (c *cutter) Rename(a, b string) error {
	c.cut("rename " + a)
	return c.FS.Rename(a, b)
}

func (c *cutter) RenameNew(a, b string) error {
	c.cut("renamenew " + a)
	return renameNew(c.FS, a, b)
}

func (c *cutter) Remove(name string) error {
	c.cut("remove " + name)
	return c.FS.Remove(name)
}

func (c *cutter) SyncDir(dir string) error {
	c.cut("syncdir " + dir)
	return c.FS.SyncDir(dir)
}

type cutFile struct {
	stream.File
	c    *cutter
	name string
}

func (f cutFile) Write(p []byte) (int, error) {
	f.c.cut("write " + f.name)
	return f.File.Write(p)
}

func (f cutFile) Sync() error {
	f.c.cut("sync " + f.name)
	return f.File.Sync()
}

func TestPowerLoss(t *testing.T) {
	for name, wrap := range map[string]func(*crashfs.FS) stream.FS{
		"renames in one step": func(f *crashfs.FS) stream.FS { return f },
		"links and removes":   func(f *crashfs.FS) stream.FS { return wrapped{f} },
	} {
		n, err := cuts(wrap)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if n < 500 {
			t.Errorf("%s: only %d cuts", name, n)
		}
		t.Logf("%s: %d cuts", name, n)
	}
}

// What a sync leaves out must be noticed, or the test above proves nothing.
func TestPowerLossNoticesMissingSyncs(t *testing.T) {
	for name, l := range map[string]liar{
		"a part is not synced":              {files: ".pending"},
		"an intent is not synced":           {files: "draft-"},
		"an epoch's directory is not":       {dirs: func(dir string) bool { return strings.HasPrefix(path.Base(dir), "open-") }},
		"the home of epochs is not":         {dirs: func(dir string) bool { return len(path.Base(dir)) == 36 }},
		"a partition's new name is not":     {dirs: func(dir string) bool { return dir == "/data/out" }},
		"a directory with an intent is not": {dirs: func(dir string) bool { d, ok := parseDir(path.Base(dir)); return ok && d.prefix == "" }},
	} {
		if _, err := cuts(func(f *crashfs.FS) stream.FS { return l.on(f) }); err == nil {
			t.Errorf("%s: not noticed", name)
		} else {
			t.Logf("%s: %v", name, err)
		}
	}
}

// liar is a disk that does not do some of its syncs.
type liar struct {
	*crashfs.FS
	files string
	dirs  func(string) bool
}

func (l liar) on(f *crashfs.FS) stream.FS {
	l.FS = f
	return l
}

func (l liar) Create(name string, perm iofs.FileMode) (stream.File, error) {
	f, err := l.FS.Create(name, perm)
	if l.files != "" && strings.Contains(name, l.files) {
		return lyingFile{f}, err
	}
	return f, err
}

func (l liar) SyncDir(dir string) error {
	if l.dirs != nil && l.dirs(path.Clean(dir)) {
		return nil
	}
	return l.FS.SyncDir(dir)
}

type lyingFile struct{ stream.File }

func (lyingFile) Sync() error { return nil }
