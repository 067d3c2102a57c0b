package torture

import (
	"context"
	"time"
)

// The aims at PostgreSQL, by strategy: where it is at work, or has just answered.
var tableAims = map[Strategy][]serverAim{
	Prepared: {{point: "postgres.commit.sent", late: time.Millisecond, hurts: true}, {point: "postgres.prepare.sent", late: time.Millisecond, hurts: true}, {},
		{point: "postgres.commit.after", hurts: true}, {point: "postgres.prepared", hurts: true}},
	Staged: {{point: "postgres.merge.sent", late: time.Millisecond, hurts: true}, {point: "postgres.stage.sent", late: time.Millisecond, hurts: true}, {},
		{point: "postgres.merge.after", hurts: true}, {point: "postgres.merge.merged", hurts: true}},
	Logged: {{point: "wal.postgres.commit.sent", late: time.Millisecond, hurts: true}, {point: "wal.postgres.written", hurts: true}, {},
		{point: "wal.delivered", hurts: true}},
	Idempotent: {{point: "idempotent.postgres.commit.sent", late: time.Millisecond, hurts: true}, {point: "idempotent.postgres.written", hurts: true}, {},
		{point: "idempotent.flushed", hurts: true}},
}

// mortal is the server as one that is killed: by SIGKILL, it and its children, and in
// turn by SIGQUIT, upon which it ends at once and leaves its state as it is.
func (d *Tables) mortal() *mortal {
	n := 0
	return &mortal{name: "server", restart: d.back, kills: tableServerKills + string(d.into), aimed: tableServerAimed,
		kill: func(ctx context.Context) error {
			if n++; n%2 == 0 {
				return d.server.Quit(ctx)
			}
			return d.server.Kill(ctx)
		}}
}

// back starts the server again; what the harness had open is broken.
func (d *Tables) back(ctx context.Context) error {
	err := d.server.Restart(ctx)
	d.pool.Reset()
	return err
}
