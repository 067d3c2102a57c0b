package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"etl/internal/testservice"
)

// PoolerTier is the name under which a missing pooler is reported.
const PoolerTier = "pooler"

// Pooler starts pgbouncer in front of the server of some addresses, in a pool mode
// (session, transaction, statement), and returns the addresses through it. It ends with
// the test. Every address has a role and a password.
func Pooler(t testing.TB, mode string, dsns ...string) (through []string) {
	t.Helper()
	bin, err := pgbouncer()
	if err != nil {
		testservice.Skip(t, PoolerTier, "%v", err)
	}
	port, err := testservice.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	users := map[string]bool{}
	var direct *url.URL
	for _, dsn := range dsns {
		u, err := url.Parse(dsn)
		if err != nil {
			t.Fatal(err)
		}
		password, _ := u.User.Password()
		users[fmt.Sprintf("%q %q\n", u.User.Username(), password)] = true
		direct = u
		own := *u
		own.Host = testservice.Loopback(port)
		through = append(through, own.String())
	}
	p, err := startPooler(t.Context(), bin, port, mode, direct, users)
	if err != nil {
		t.Fatalf("start pgbouncer: %v", err)
	}
	t.Cleanup(func() {
		testservice.ShowLog(t, p)
		if err := p.Stop(); err != nil {
			t.Errorf("stop pgbouncer: %v", err)
		}
	})
	err = testservice.Await(t.Context(), p, kind.Limit, func(ctx context.Context) error {
		c, err := pgx.Connect(ctx, through[0])
		if err != nil {
			return err
		}
		return c.Close(ctx)
	})
	if err != nil {
		t.Fatalf("await pgbouncer: %v", err)
	}
	return through
}

func pgbouncer() (string, error) {
	if path, err := exec.LookPath("pgbouncer"); err == nil {
		return path, nil
	}
	if _, err := os.Stat("/usr/sbin/pgbouncer"); err == nil {
		return "/usr/sbin/pgbouncer", nil
	}
	return "", errors.New("no pgbouncer on the PATH or in /usr/sbin")
}

func startPooler(ctx context.Context, bin string, port int, mode string, direct *url.URL, users map[string]bool) (*testservice.Process, error) {
	uid, gid, err := owner()
	if err != nil {
		return nil, err
	}
	return testservice.StartProcess(ctx, testservice.ProcessSpec{
		Name: "pgbouncer", UID: uid, GID: gid,
		Prepare: func(_ context.Context, dir string) error {
			var list strings.Builder
			for line := range users {
				list.WriteString(line)
			}
			settings := fmt.Sprintf(`[databases]
* = host=%s port=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = scram-sha-256
auth_file = %s
pool_mode = %s
default_pool_size = 20
max_client_conn = 200
`, direct.Hostname(), direct.Port(), port, filepath.Join(dir, "users"), mode)
			return errors.Join(os.WriteFile(filepath.Join(dir, "users"), []byte(list.String()), 0o644),
				os.WriteFile(filepath.Join(dir, "pgbouncer.ini"), []byte(settings), 0o644))
		},
		Command: func(dir string) *exec.Cmd { return exec.Command(bin, filepath.Join(dir, "pgbouncer.ini")) },
	})
}
