package kafkaconn

import (
	"context"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kgo"
)

// logger hands kgo's messages to a slog.Logger one level lower: what kgo calls an
// error it mostly retries by itself, and what it cannot retry it returns. kgo's
// informational messages, some per transaction, are for debugging.
type logger struct{ to *slog.Logger }

var levels = map[kgo.LogLevel]slog.Level{
	kgo.LogLevelError: slog.LevelWarn,
	kgo.LogLevelWarn:  slog.LevelInfo,
	kgo.LogLevelInfo:  slog.LevelDebug,
}

// Level returns the most detailed level of kgo that anybody reads. kgo's own debug
// level has a line per request and is never asked for.
func (l logger) Level() kgo.LogLevel {
	for _, k := range []kgo.LogLevel{kgo.LogLevelInfo, kgo.LogLevelWarn, kgo.LogLevelError} {
		if l.to.Enabled(context.Background(), levels[k]) {
			return k
		}
	}
	return kgo.LogLevelNone
}

// Log writes one message.
func (l logger) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	if to, ok := levels[level]; ok {
		l.to.Log(context.Background(), to, "kafka client: "+msg, keyvals...)
	}
}
