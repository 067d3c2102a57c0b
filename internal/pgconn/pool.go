package pgconn

import (
	"context"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	wire "github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"etl/internal/broken"
	"etl/internal/peer"
	"etl/stream"
)

// Pool hands out connections to one database. It opens them when they are needed.
type Pool struct {
	p    *pgxpool.Pool
	cfg  Config
	once sync.Once
}

const (
	// connectTimeout bounds a connection attempt, TLS and log-in included.
	connectTimeout = 10 * time.Second
	// idleTime is how long a connection that nobody uses stays: an interval or two.
	idleTime = 5 * time.Minute
)

// Open returns a pool of at most size connections under an application name, which
// carries job and attempt, so that a successor knows whose sessions it finds. It does
// not connect.
func Open(ctx context.Context, cfg Config, size int, application string) (*Pool, error) {
	cfg = cfg.WithDefaults()
	pc, err := cfg.parse()
	if err != nil {
		return nil, err
	}
	cc := pc.ConnConfig
	if cc.ConnectTimeout == 0 {
		cc.ConnectTimeout = connectTimeout
	}
	cc.DialFunc = watched(cc, cfg.Dial)
	if cc.ValidateConnect == nil {
		cc.ValidateConnect = wire.ValidateConnectTargetSessionAttrsReadWrite
	}
	cc.RuntimeParams["application_name"] = application
	// No statement is prepared by name, so that behind a transaction pooler nothing is
	// missing in the next session. The large statements here would gain nothing by it.
	cc.DefaultQueryExecMode = pgx.QueryExecModeExec
	cc.StatementCacheCapacity, cc.DescriptionCacheCapacity = 0, 0
	cc.OnNotice = func(_ *wire.PgConn, n *wire.Notice) {
		cfg.Log.Info("notice of PostgreSQL", "severity", n.Severity, "code", n.Code, "message", n.Message)
	}
	pc.MaxConns, pc.MinConns, pc.MinIdleConns, pc.MaxConnIdleTime = int32(max(size, 1)), 0, 0, idleTime
	p, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), pc)
	if err != nil {
		return nil, Explain(err, Connect, "")
	}
	return &Pool{p: p, cfg: cfg}, nil
}

// watched dials by dial, by default as pgx does, and looks at what answers first.
func watched(cc *pgx.ConnConfig, dial stream.Dialer) wire.DialFunc {
	if dial == nil {
		dial = stream.Dialer(cc.DialFunc)
	}
	server := "PostgreSQL at " + address(cc)
	direct := cc.SSLNegotiation == "direct" // the first bytes are a TLS handshake
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(peer.Named(ctx, server), network, addr)
		if err != nil || direct {
			return c, err
		}
		return peer.Expect(c, addr), nil
	}
}

// Close closes all connections; it waits for those that are in use.
func (p *Pool) Close() { p.once.Do(p.p.Close) }

// With calls f with a connection. Whatever transaction f leaves open is rolled back. A
// connection on which the server turns out to be read only is closed: the next one is made
// to whatever server is the primary by then.
func (p *Pool) With(ctx context.Context, f func(*Conn) error) error {
	c, err := p.p.Acquire(ctx)
	if err != nil {
		return Explain(err, Connect, p.address())
	}
	defer c.Release()
	conn := &Conn{c}
	defer conn.Rollback(ctx)
	if err = f(conn); stream.CodeOf(err) == CodeReadOnly {
		conn.Break()
	}
	return err
}

// address names the server in messages.
func (p *Pool) address() string { return address(p.p.Config().ConnConfig) }

func address(c *pgx.ConnConfig) string {
	hosts := []string{strings.ToLower(c.Host)}
	for _, f := range c.Fallbacks {
		if h := strings.ToLower(f.Host); h != hosts[len(hosts)-1] {
			hosts = append(hosts, h)
		}
	}
	return strings.Join(hosts, ",") + ":" + itoa(int(c.Port)) + "/" + c.Database
}

// Application returns the name under which an attempt of a job connects. What may be
// cut off, because the server keeps 63 bytes, is the end of the readable part.
func Application(lineage stream.Lineage, attempt stream.Attempt, job string, sink stream.UID) string {
	s := "etl " + lineage.Short() + " " + itoa(int(attempt)) + " " + job + "/" + string(sink)
	b := []byte(s)
	for i, c := range b {
		if c < ' ' || c > '~' { // the server replaces what is not ASCII
			b[i] = '?'
		}
	}
	return string(b[:min(len(b), 63)])
}

// tagUnchecked is the negative control about the tag of PREPARE TRANSACTION.
func tagUnchecked() bool { return broken.Is(broken.PrepareTagUnchecked) }
