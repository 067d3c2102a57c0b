package kafka

import (
	"context"
	"sync/atomic"
	"time"

	"etl/internal/kafkaconn"
	"etl/sink/kafkatxn"
)

// sizeLimits knows the largest record batch each topic takes. It is read on the task
// goroutine and by kgo, and refreshed in the background.
type sizeLimits struct {
	current atomic.Pointer[map[string]int32]
	at      time.Time // of the last refresh; the factory's own
}

// fallback is for a topic nobody described: the default of Kafka's clients.
const fallback int32 = 1000012

func (l *sizeLimits) of(topic string) int32 {
	if m := l.current.Load(); m != nil {
		if n := (*m)[topic]; n > 0 {
			return n
		}
	}
	return fallback
}

// refresh looks again when what is known is older than refreshEvery.
func (l *sizeLimits) refresh(ctx context.Context, raw *kafkatxn.Client, now time.Time) error {
	if l.current.Load() != nil && now.Sub(l.at) < refreshEvery {
		return nil
	}
	infos, err := raw.Refresh(ctx)
	if err != nil {
		return err
	}
	l.set(infos)
	l.at = now
	return nil
}

func (l *sizeLimits) set(infos []kafkaconn.TopicInfo) {
	m := make(map[string]int32, len(infos))
	for _, i := range infos {
		m[i.Name] = min(i.MaxMessageBytes, largestBatch)
	}
	l.current.Store(&m)
}

// largestBatch keeps one batch inside kgo's largest request.
const largestBatch = 64 << 20
