package filestore_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"etl/checkpoint"
	"etl/checkpoint/filestore"
	"etl/checkpoint/storagetest"
	"etl/internal/fault"
	"etl/internal/simtest/crashfs"
	"etl/stream"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("FILESTORE_TEST_HOLD"); dir != "" {
		holdLock(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

func world(fs stream.FS) stream.World {
	w := stream.SystemWorld(slog.New(slog.DiscardHandler))
	w.FS = fs
	return w
}

func open(t *testing.T, fs stream.FS, dir string) *filestore.Store {
	t.Helper()
	st, err := filestore.Open(world(fs), dir)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func TestStorage(t *testing.T) {
	t.Run("system", func(t *testing.T) {
		storagetest.Run(t, storagetest.Suite{New: func(t *testing.T) storagetest.Opener {
			dir := filepath.Join(t.TempDir(), "a", "b")
			return func(t *testing.T) checkpoint.Storage { return open(t, stream.SystemFS{}, dir) }
		}})
	})
	t.Run("memory", func(t *testing.T) {
		storagetest.Run(t, storagetest.Suite{New: func(t *testing.T) storagetest.Opener {
			fs := crashfs.New()
			return func(t *testing.T) checkpoint.Storage { return open(t, fs, "/data/job") }
		}})
	})
}

// TestModes: what the store makes is its user's alone, whatever the umask.
func TestModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "job")
	st := open(t, stream.SystemFS{}, dir)
	if err := st.PutIfAbsent(context.Background(), "log/000000000001", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := st.Note(context.Background(), "history/000001", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := st.Lock(context.Background(), checkpoint.Holder{}, false); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{
		"": 0o700 | os.ModeDir, "log": 0o700 | os.ModeDir, "log/000000000001": 0o600, "history/000001": 0o600, ".lock": 0o600,
	} {
		fi, err := os.Lstat(filepath.Join(dir, name))
		if err != nil || fi.Mode() != want {
			t.Errorf("%q: %v, %v; want %v", name, fi.Mode(), err, want)
		}
	}
}

// TestOpeningChangesNothing: a command that only looks leaves no trace, not even
// a directory, and disturbs no temporary file of a running job.
func TestOpeningChangesNothing(t *testing.T) {
	fs := crashfs.New()
	if err := fs.MkdirAll("/data", 0o700); err != nil {
		t.Fatal(err)
	}
	st := open(t, fs, "/data/job")
	if _, err := st.List(context.Background(), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Get(context.Background(), "log/000000000001"); err == nil {
		t.Fatal("an object in an empty storage")
	}
	if names, err := fs.List("/data"); err != nil || len(names) != 0 {
		t.Errorf("after looking, /data holds %v, %v", names, err)
	}
}

func TestRefusedRoots(t *testing.T) {
	dir := t.TempDir()
	writable, file := filepath.Join(dir, "writable"), filepath.Join(dir, "file")
	if err := os.Mkdir(writable, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(writable, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{writable: "others may write", file: "not a directory"} {
		_, err := filestore.Open(world(stream.SystemFS{}), path)
		if err == nil || !strings.Contains(err.Error(), want) || stream.ClassOf(err) != stream.Environment {
			t.Errorf("Open(%s) = %v, want an environment error that says %q", path, err, want)
		}
	}
}

// TestPointsArePassed: every fault point of the table exists.
func TestPointsArePassed(t *testing.T) {
	seen, ctx := map[string]bool{}, context.Background()
	fault.Watch(func(name string) { seen[name] = true })
	defer fault.Watch(nil)
	st := open(t, crashfs.New(), "/job")
	err := st.PutIfAbsent(ctx, "log/000000000001", []byte("x"))
	if err == nil {
		_, _, err = st.Create(ctx, "objects/a", strings.NewReader("x"))
	}
	if err == nil {
		err = st.Delete(ctx, "objects/a")
	}
	if err != nil {
		t.Fatal(err)
	}
	for p := range filestore.Points {
		if !seen[p] {
			t.Errorf("%s is in the table and was not passed", p)
		}
	}
}
