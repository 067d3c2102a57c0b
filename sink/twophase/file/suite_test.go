package file

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"

	"etl/expr"
	"etl/internal/simtest/crashfs"
	"etl/sink"
	"etl/sink/sinktest"
	"etl/stream"
)

// The conformance suite on every format and every kind of file system.
func TestConformance(t *testing.T) {
	for name, c := range map[string]struct {
		shape  func(*Config)
		disk   func(t testing.TB) (stream.FS, string)
		runs   int
		places int
	}{
		"json, os.Root and renameat2":     {func(*Config) {}, rootDisk, 15, 8},
		"csv in gzip, names and links":    {func(c *Config) { c.Format, c.Compression = CSV, Gzip }, systemDisk, 10, 6},
		"parquet in zstd, a disk of RAM":  {func(c *Config) { c.Format, c.Compression = Parquet, Zstd }, memoryDisk, 20, 10},
		"json in zstd, files of few rows": {func(c *Config) { c.Compression, c.RollSize, c.MaxOpen = Zstd, 20, 1 }, memoryDisk, 60, 15},
		"json, partitions, two open":      {func(c *Config) { c.PartitionBy, c.MaxOpen = []string{"k"}, 2 }, memoryDisk, 60, 15},
	} {
		t.Run(name, func(t *testing.T) {
			sinktest.Run(t, sinktest.Suite{Runs: c.runs, Places: c.places, New: func(t testing.TB) *sinktest.Harness {
				f, dir := c.disk(t)
				return harness(f, dir, c.shape)
			}})
		})
	}
}

// A disk that loses power keeps what is prepared.
func TestConformanceOfLostPower(t *testing.T) {
	sinktest.Run(t, sinktest.Suite{Only: "the outside dies", New: func(t testing.TB) *sinktest.Harness {
		f := &socket{now: crashfs.New()}
		h := harness(f, "/out", func(c *Config) { c.PartitionBy = []string{"k"} })
		h.Kill = func(context.Context) error {
			f.crash()
			return nil
		}
		h.Restart = func(context.Context) error { return nil }
		return h
	}})
}

// fastDir is a directory in memory where the system has one: nothing here loses power,
// and waiting for a disk proves nothing.
func fastDir(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "etl-file-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func rootDisk(t testing.TB) (stream.FS, string) {
	f, err := openRoot(fastDir(t))
	if err != nil {
		t.Fatal(err)
	}
	return f, "out"
}

// wrapped hides what a file system can do beyond stream.FS.
type wrapped struct{ stream.FS }

func systemDisk(t testing.TB) (stream.FS, string) {
	return wrapped{stream.SystemFS{}}, filepath.Join(fastDir(t), "out")
}

func memoryDisk(testing.TB) (stream.FS, string) { return crashfs.New(), "/out" }

// socket is a file system that loses power: what runs goes on with what is left.
type socket struct {
	mu  sync.Mutex
	now *crashfs.FS
}

func (s *socket) fs() *crashfs.FS {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *socket) crash() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Crash(nil)
}

func (s *socket) MkdirAll(dir string, perm iofs.FileMode) error { return s.fs().MkdirAll(dir, perm) }
func (s *socket) Create(name string, perm iofs.FileMode) (stream.File, error) {
	return s.fs().Create(name, perm)
}
func (s *socket) Open(name string) (stream.File, error)   { return s.fs().Open(name) }
func (s *socket) Link(a, b string) error                  { return s.fs().Link(a, b) }
func (s *socket) Rename(a, b string) error                { return s.fs().Rename(a, b) }
func (s *socket) RenameNew(a, b string) error             { return s.fs().RenameNew(a, b) }
func (s *socket) Remove(name string) error                { return s.fs().Remove(name) }
func (s *socket) List(dir string) ([]string, error)       { return s.fs().List(dir) }
func (s *socket) Stat(name string) (iofs.FileInfo, error) { return s.fs().Stat(name) }
func (s *socket) SyncDir(dir string) error                { return s.fs().SyncDir(dir) }

func harness(f stream.FS, dir string, shape func(*Config)) *sinktest.Harness {
	h := &sinktest.Harness{
		World: stream.World{FS: f},
		Connect: func(p sinktest.Process) sink.Connector {
			cfg := Config{Path: dir, Parallelism: p.Parallelism, NewEncoder: func() Encoder { return rowEncoder(nil) }}
			shape(&cfg)
			if cfg.Format == CSV || cfg.Format == Parquet {
				cfg.Columns = []Column{{"k", Type{Kind: String}}, {"n", Type{Kind: Int64}}}
			}
			partitions := cfg.PartitionBy
			cfg.NewEncoder = func() Encoder { return rowEncoder(partitions) }
			cfg = cfg.WithDefaults()
			return New(cfg)
		},
		Read:    func(context.Context) ([]sinktest.Row, error) { return readRows(f, dir) },
		InDoubt: func(context.Context) ([]string, error) { return undone(f, dir, "job") },
		BadAtWrite: func(_ *stream.Batch, r *stream.Record) {
			r.Value = []byte("not a number")
		},
	}
	return h
}

// rowEncoder writes a row's key and number.
func rowEncoder(partitions []string) Encoder {
	return func(r *stream.Record, row *Row) error {
		n, err := strconv.ParseInt(string(r.Value), 10, 64)
		if err != nil {
			return errors.New("no number")
		}
		for range partitions {
			row.Partition(expr.TextValue(r.Key))
		}
		if row.cells == nil {
			row.JSON(fmt.Appendf(nil, "{\"k\":%q,\n\"n\":%d}", r.Key, n)) // a line end that must go
			return nil
		}
		row.Value(expr.TextValue(r.Key))
		row.Value(expr.IntValue(n))
		return nil
	}
}

// walk calls visit for every file below dir, the sink's own directory left out.
func walk(f stream.FS, dir string, visit func(name string) error) error {
	names, err := list(f, dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		at := path.Join(dir, name)
		switch info, err := f.Stat(at); {
		case err != nil:
			return err
		case name == ".etl":
		case info.IsDir():
			err = walk(f, at, visit)
			if err != nil {
				return err
			}
		default:
			if err := visit(at); err != nil {
				return err
			}
		}
	}
	return nil
}

// readRows reads every part file as its readers would, in the order of attempt,
// checkpoint and part.
func readRows(f stream.FS, dir string) (rows []sinktest.Row, err error) {
	var names []string
	if err := walk(f, dir, func(name string) error { names = append(names, name); return nil }); err != nil {
		return nil, err
	}
	field := func(name string, i int) int { // from the right: attempt, subtask, n, seq
		parts := strings.Split(path.Base(name), "-")
		number, _, _ := strings.Cut(parts[len(parts)-i], ".")
		n, err := strconv.Atoi(number)
		if err != nil {
			panic(name + " is no part file")
		}
		return n
	}
	slices.SortFunc(names, func(a, b string) int {
		for _, i := range []int{4, 2, 1} {
			if d := field(a, i) - field(b, i); d != 0 {
				return d
			}
		}
		return strings.Compare(a, b)
	})
	for _, name := range names {
		b, err := readAll(f, name)
		if err != nil {
			return nil, err
		}
		got, err := parseFile(name, b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, r := range got {
			r.Partition = field(name, 3)
			rows = append(rows, r)
		}
	}
	return rows, nil
}

func readAll(f stream.FS, name string) ([]byte, error) {
	h, err := f.Open(name)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	return io.ReadAll(h)
}

func parseFile(name string, b []byte) (rows []sinktest.Row, err error) {
	base, packed := strings.CutSuffix(name, ".gz")
	if packed {
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		if b, err = io.ReadAll(z); err != nil {
			return nil, err
		}
	}
	if base, packed = strings.CutSuffix(base, ".zst"); packed {
		z, err := zstd.NewReader(bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		defer z.Close()
		if b, err = io.ReadAll(z); err != nil {
			return nil, err
		}
	}
	switch path.Ext(base) {
	case ".csv":
		lines, err := csv.NewReader(bytes.NewReader(b)).ReadAll()
		if err != nil {
			return nil, err
		}
		for _, l := range lines[1:] {
			n, _ := strconv.Atoi(l[1])
			rows = append(rows, sinktest.Row{Key: l[0], N: n})
		}
	case ".parquet":
		got, err := parquet.Read[struct {
			K *string `parquet:"k,optional"`
			N *int64  `parquet:"n,optional"`
		}](bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return nil, err
		}
		for _, r := range got {
			rows = append(rows, sinktest.Row{Key: *r.K, N: int(*r.N)})
		}
	default:
		for line := range bytes.Lines(b) {
			var r sinktest.Row
			if err := json.Unmarshal(line, &struct {
				K *string
				N *int
			}{&r.Key, &r.N}); err != nil {
				return nil, err
			}
			rows = append(rows, r)
		}
	}
	return rows, nil
}

// undone lists the directories of epochs that are not done, by looking.
func undone(f stream.FS, dir, job string) (out []string, err error) {
	home := path.Join(dir, ".etl", job, "out")
	lineages, err := list(f, home)
	if err != nil {
		return nil, err
	}
	for _, l := range lineages {
		epochs, err := list(f, path.Join(home, l))
		if err != nil {
			return nil, err
		}
		for _, e := range epochs {
			files, err := list(f, path.Join(home, l, e))
			if err != nil {
				return nil, err
			}
			if !slices.Contains(files, "intent") || len(files) > 1 {
				out = append(out, l+"/"+e)
			}
		}
	}
	return out, nil
}
