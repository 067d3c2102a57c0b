package torture

import (
	"context"
	"io"
	"testing"

	"github.com/jackc/pgx/v5"
)

// A job that is stopped while one of its subtasks is in the middle of a COPY has nothing
// under way: the server would wait for the rest for ever.
func TestQuietInTheMiddleOfACopy(t *testing.T) {
	t.Parallel()
	d, err := NewTables(t.Context(), sharedServer(t), Staged, "secret")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.pool.Exec(t.Context(), "GRANT INSERT ON copied TO "+d.role); err != nil {
		t.Fatal(err)
	}
	c, err := pgx.Connect(t.Context(), d.worker)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }() // nothing was committed
	rows, more := io.Pipe()
	copied := make(chan error, 1)
	go func() {
		_, err := c.PgConn().CopyFrom(context.Background(), rows, "COPY copied FROM STDIN")
		copied <- err
	}()
	if _, err := io.WriteString(more, "1\tk\tx\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.quiet(t.Context()); err != nil {
		t.Error(err)
	}
	if err := more.Close(); err != nil {
		t.Error(err)
	}
	if err := <-copied; err != nil {
		t.Error(err)
	}
}
