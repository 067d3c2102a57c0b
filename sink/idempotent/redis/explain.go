package redis

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"etl/stream"
)

// answers are what errors of the server mean, by their first word.
var answers = map[string]struct {
	class     stream.Class
	code, fix string
}{
	"NOAUTH":    {stream.Environment, "redis.auth", "give username and password"},
	"WRONGPASS": {stream.Environment, "redis.auth", "mend username or password"},
	"NOPERM":    {stream.Environment, "redis.permission", "ACL SETUSER NAME +info +get +set +del +hset +hdel +expire +eval +evalsha +script|load ~PREFIX* ~etl:*"},
	"READONLY":  {stream.Retry, "redis.replica", "connect to the primary"},
	"NOSCRIPT":  {stream.Retry, "redis.script", ""},
	"LOADING":   {stream.Retry, "redis.loading", ""},
	"BUSY":      {stream.Retry, "redis.busy", ""},
	"OOM":       {stream.Retry, "redis.memory", "raise maxmemory"},
	"MISCONF":   {stream.Retry, "redis.disk", "make room on the server's disk"},
}

// explain gives an error its class. What is no answer of the server is a broken connection:
// the same call may be made again.
func (s *store) explain(ctx context.Context, err error, op string) error {
	var known *stream.Error
	switch {
	case err == nil, errors.As(err, &known), errors.Is(err, context.Canceled):
		return err
	}
	if other := s.sameRun(); other != nil {
		return other // the client passes on the words of connected, not the error
	}
	var answer redis.Error
	if !errors.As(err, &answer) {
		return stream.Errorf(stream.Retry, "redis.unreachable", op, s.cfg.Conn.System(), "%w", err).WithFix("check the server's address, that it runs, and the network between")
	}
	word, _, _ := strings.Cut(answer.Error(), " ")
	a, ok := answers[word]
	if !ok {
		return stream.Errorf(stream.Failed, "redis.failed", op, s.cfg.Conn.System(), "%w", err)
	}
	if word == "NOSCRIPT" { // somebody flushed them
		if err := s.load(ctx); err != nil {
			return err
		}
	}
	e := stream.Errorf(a.class, a.code, op, s.cfg.Conn.System(), "%w", err)
	if a.fix != "" {
		e = e.WithFix("%s", a.fix)
	}
	return e
}
