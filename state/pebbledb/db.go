package pebbledb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"etl/stream"
)

// scratchOptions returns Pebble's for the scratch: little memory.
func (b *Backend) scratchOptions() *pebble.Options {
	o := b.options()
	o.MemTableSize, o.CacheSize = 4<<20, 16<<20
	return o
}

// options returns Pebble's for the base. They are fixed: every one was measured
// on updates that arrive as sorted runs of many merged epochs.
func (b *Backend) options() *pebble.Options {
	memtable := min(max(b.cfg.Memory/16, 4<<20), 64<<20)
	o := &pebble.Options{
		FS: b.cfg.FS,
		// Where a log cannot be written, Pebble ends the process by unlocking a mutex
		// twice, and nothing can stop it. Without one, what is flushed is always all
		// up to some batch, so that marks tell the truth as they would with one.
		DisableWAL: true,
		// The default is the oldest supported and does without half of what is used.
		FormatMajorVersion:          pebble.FormatNewest,
		MemTableSize:                uint64(memtable),
		MemTableStopWritesThreshold: 4,
		// Memtables are taken out of the cache: a smaller one doubles the time of a Get.
		CacheSize:             max(4*memtable, b.cfg.Memory/4),
		L0CompactionThreshold: 2,
		L0StopWritesThreshold: 24,
		MaxManifestFileSize:   1 << 20,
		MaxOpenFiles:          1000,
		Logger:                logger{b},
		EventListener:         b.listener(),
	}
	o.CompactionConcurrencyRange = func() (int, int) { return 1, 2 }
	o.TargetFileSizes[0] = 8 << 20
	o.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionFastest })
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return o
}

// listener makes failures of Pebble's background work known. Its own defaults
// only log that the disk is full, and exit the process on a bad block.
func (b *Backend) listener() *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			if b.probing.Load() || errors.Is(err, pebble.ErrCancelledCompaction) {
				return
			}
			b.fail(stream.Errorf(stream.Environment, "state.base_write", "write the local state base", b.cfg.Dir, "%w", err).
				WithFix("free disk space, or move the data directory to a sound disk"))
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			if b.probing.Load() {
				return
			}
			b.distrust()
			b.fail(corrupt(b.cfg.Dir, info.Details))
		},
	}
}

func corrupt(dir string, err error) *stream.Error {
	what, _, _ := strings.Cut(err.Error(), "\n") // details for Pebble's own tools follow
	return stream.Errorf(stream.Restart, "state.base_corrupt", "read the local state base", dir, "%s", what).
		WithFix("the next attempt loads it anew from checkpoint storage")
}

// logger is Pebble's. Fatalf must not exit the process, and may return only
// because nothing of this base is used any more once it has failed.
type logger struct{ b *Backend }

func (l logger) Infof(string, ...any) {}

func (l logger) Errorf(format string, args ...any) {
	l.b.log().Warn("pebble: " + fmt.Sprintf(format, args...))
}

func (l logger) Fatalf(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	if l.b.probing.Load() {
		return
	}
	l.b.distrust()
	l.b.fail(stream.Errorf(stream.Environment, "state.base_fatal", "write the local state base", l.b.cfg.Dir, "%w", err).
		WithFix("look at the disk; the next attempt loads the base anew"))
}

func (b *Backend) log() *slog.Logger {
	if b.cfg.World.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return b.cfg.World.Log
}

// guard runs f, which calls into Pebble, and makes a panic of it an error.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			if e, ok := p.(error); ok {
				err = fmt.Errorf("pebble: %w", e)
			} else {
				err = fmt.Errorf("pebble: %v", p)
			}
		}
	}()
	return f()
}

var errTimeout = errors.New("it takes too long")

// grace is how long a call into a failed base may still take.
const grace = 2 * time.Second

// within runs f on a goroutine of its own and waits for it no longer than the
// configured time: on a full disk Pebble waits for ever. Too long is a failure,
// and after one f gets a little more time to notice. What is left running then
// ends with the process; the base is not touched again.
func (b *Backend) within(what string, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- guard(f) }()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	late := b.after(ctx, b.cfg.Timeout)
	for stopped := b.ctx.Done(); ; {
		select {
		case err := <-done:
			return err
		case <-stopped:
			if stopped = nil; b.Err() != nil {
				late = b.after(ctx, grace)
			}
		case <-late:
			if stopped == nil {
				b.abandoned.Store(true)
				return fmt.Errorf("%s: %w", what, errTimeout)
			}
			b.fail(stream.Errorf(stream.Environment, "state.base_write", "use the local state base", b.cfg.Dir, "%s: %w", what, errTimeout).
				WithFix("look at the disk: it is full, slow or broken"))
		}
	}
}

// after returns a channel that is closed after d, unless ctx ends before.
func (b *Backend) after(ctx context.Context, d time.Duration) <-chan struct{} {
	late := make(chan struct{})
	go func() {
		if b.cfg.World.Clock.Sleep(ctx, d) == nil {
			close(late)
		}
	}()
	return late
}

// flush brings everything applied into tables: from then on it outlives the
// process, and the machine.
func (b *Backend) flush(n *base) error {
	err := b.within("flush the local state base", func() error {
		done, err := n.db.AsyncFlush()
		if err != nil {
			return err
		}
		select {
		case <-done:
			return nil
		case <-b.ctx.Done():
			return context.Cause(b.ctx)
		}
	})
	if err == nil {
		n.unflushed.Store(false)
	}
	return err
}
