package torture

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// TableWatch is a reader that looks at the tables all the time, as any user of them
// would: counts of keys, the number of appended rows and the markers never go back.
type TableWatch struct {
	d      *Tables
	cancel context.CancelFunc
	done   chan struct{}

	looks int64
	saw   map[string]int64
	back  []string
}

const watchEvery = 60 * time.Millisecond

// NewTableWatch follows the tables of a job until it is closed.
func NewTableWatch(d *Tables) *TableWatch {
	ctx, cancel := context.WithCancel(context.Background())
	w := &TableWatch{d: d, cancel: cancel, done: make(chan struct{}), saw: map[string]int64{}}
	go w.follow(ctx)
	return w
}

func (w *TableWatch) follow(ctx context.Context) {
	defer close(w.done)
	sql := "SELECT 'key ' || k, c FROM counted UNION ALL SELECT 'number of rows', count(*) FROM copied"
	if w.d.into.books() {
		sql += " UNION ALL SELECT 'marker of ' || sink || '/' || subtask, max(checkpoint) FROM etl.marker GROUP BY sink, subtask"
	}
	for pause(ctx, watchEvery) == nil {
		rows, err := w.d.pool.Query(ctx, sql)
		if err != nil {
			continue // the server is away
		}
		now := map[string]int64{}
		var what string
		var n int64
		if _, err = pgx.ForEachRow(rows, []any{&what, &n}, func() error { now[what] = n; return nil }); err == nil {
			w.look(now)
		}
	}
}

func (w *TableWatch) look(now map[string]int64) {
	w.looks++
	for what, before := range w.saw {
		if now[what] < before {
			w.back = append(w.back, fmt.Sprintf("%s went back from %d to %d", what, before, now[what]))
		}
	}
	w.saw = now
}

// Close ends it and says what it saw.
func (w *TableWatch) Close(v *Verdict) {
	w.cancel()
	<-w.done
	for _, s := range w.back {
		v.Add(Reader, "a reader saw that the %s", s)
	}
	if w.looks == 0 {
		v.Add(Reader, "a reader has never seen the tables")
	}
}
