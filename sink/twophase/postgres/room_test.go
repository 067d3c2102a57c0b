package postgres

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"etl/internal/pgtest"
	"etl/stream"
)

// TestSlowTableSlowsTheSource: while an epoch cannot be written, the next one fills what
// memory it has, and then the writer waits, and goes on when the table does.
func TestSlowTableSlowsTheSource(t *testing.T) {
	for name, shape := range map[string]func(*Config){"prepared": nil, "staged": func(c *Config) { c.Strategy = Staged }} {
		t.Run(name, func(t *testing.T) {
			f := newFlow(newLab(t, pgtest.Shared(t), func(c *Config) {
				if shape != nil {
					shape(c)
				}
				c.Memory = 4 << 10
			}))
			f.write("a=1")
			p := f.prepare()
			f.write(many("b", 400)...) // its Finish has not begun: nobody is waited for
			table := f.cfg.Table
			if f.cfg.Strategy == Staged {
				table = f.w.id.book.Schema + ".staged"
			}
			locker, err := f.pool.Begin(f.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = locker.Rollback(context.Background()) }() // once more, after a failure
			if _, err = locker.Exec(f.Context(), "LOCK TABLE "+table+" IN EXCLUSIVE MODE"); err != nil {
				t.Fatal(err)
			}
			finished := make(chan error, 1)
			go func() { _, err := p.Finish(f.Context(), nil); finished <- err }()
			f.until("the Finish begins", func() bool {
				f.w.mu.Lock()
				defer f.w.mu.Unlock()
				return f.w.epochs[0].begun
			})

			wrote := make(chan error, 1)
			go func() { wrote <- f.w.Write(f.Context(), batchOf(many("c", 3)), f) }()
			f.says("slower than the source")
			select {
			case err := <-wrote:
				t.Fatalf("the writer did not wait: %v", err)
			default:
			}
			if err := locker.Rollback(context.Background()); err != nil {
				t.Fatal(err)
			}
			if err := <-finished; err != nil {
				t.Fatal(err)
			}
			if err := <-wrote; err != nil {
				t.Fatal(err)
			}
			f.write(many("d", 3)...) // nothing is on its way: the epoch may grow
			if f.cfg.Strategy != Staged {
				f.exec("ROLLBACK PREPARED '" + f.w.id.book.GID(0, f.id()) + "'")
			}
		})
	}
}

// TestNobodyWaitsForWhoWaitsForTheTask: a Finish that waits for an epoch which is neither
// published nor aborted waits for the task, which has to hear of one or the other.
func TestNobodyWaitsForWhoWaitsForTheTask(t *testing.T) {
	f := newFlow(newLab(t, pgtest.Shared(t), func(c *Config) {
		c.Mode, c.Key, c.Strategy, c.Memory = Upsert, []string{"k"}, Prepared, 4<<10
	}))
	f.write("a=1")
	if _, err := f.prepare().Finish(f.Context(), nil); err != nil {
		t.Fatal(err)
	}
	first := f.id()
	f.write("b=1")
	p, finished := f.prepare(), make(chan error, 1)
	ctx := &awaited{Context: f.Context(), waits: make(chan struct{})}
	go func() { _, err := p.Finish(ctx, nil); finished <- err }()
	<-ctx.waits
	f.write(many("c", 400)...)
	f.write("d=1") // the epoch is full: it would wait
	if err := f.w.Aborted(f.Context(), first); err != nil {
		t.Fatal(err)
	}
	if err := <-finished; err != nil {
		t.Fatal(err)
	}
	f.exec("ROLLBACK PREPARED '" + f.w.id.book.GID(0, f.id()) + "'")
}

// awaited closes waits when somebody waits, among other things, for its end.
type awaited struct {
	context.Context
	once  sync.Once
	waits chan struct{}
}

func (a *awaited) Done() <-chan struct{} {
	a.once.Do(func() { close(a.waits) })
	return a.Context.Done()
}

// many returns n rows with keys that begin so.
func many(prefix string, n int) (rows []string) {
	for i := range n {
		rows = append(rows, fmt.Sprintf("%s%d=%d", prefix, i, i))
	}
	return rows
}

// batchOf returns rows, "key" or "key=number".
func batchOf(rows []string) *stream.Batch {
	b := stream.NewBatch(&stream.Schema{Format: stream.Text})
	for i, r := range rows {
		k, v, _ := strings.Cut(r, "=")
		rec := stream.Record{Topic: "rows", Offset: int64(i), Key: b.Copy([]byte(k)), Pos: -1}
		if v != "" {
			rec.Value = b.Copy([]byte(v))
		}
		b.Append(rec)
	}
	return b
}
