package http

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"etl/checkpoint"
	"etl/stream"
)

// reject is one row that the endpoint refused, as a line of JSON in the job's storage
// (docs/http.md).
type reject struct {
	Job        string          `json:"job"`
	Sink       stream.UID      `json:"sink"`
	Checkpoint string          `json:"checkpoint"`
	Subtask    int             `json:"subtask"`
	Key        string          `json:"idempotency_key"`
	Topic      string          `json:"topic"`
	Partition  int32           `json:"partition"`
	Offset     int64           `json:"offset"`
	Status     int             `json:"status"`
	Answer     string          `json:"answer"`
	Row        json.RawMessage `json:"row"`
}

func (d *delivery) rejected(key string, it *item, why *refusedError) reject {
	return reject{Job: d.b.env.Job, Sink: d.b.env.UID, Checkpoint: d.e.Checkpoint.String(), Subtask: d.e.Subtask, Key: key,
		Topic: it.place.Topic, Partition: it.place.Partition, Offset: it.place.Offset, Status: why.status, Answer: strings.ToValidUTF8(why.answer, "\uFFFD"), Row: bytes.Clone(it.json)}
}

// rejectFolder is where the rows of a sink are put aside, below the job's storage.
func rejectFolder(uid stream.UID) string {
	b := []byte(uid)
	for i, c := range b {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' {
			b[i] = '_'
		}
	}
	return "rejects/" + string(b[:min(len(b), 100)])
}

// rejectName is the object for the rows of an epoch. It carries the attempt: another
// attempt that delivers again may be told something else.
func (d *delivery) rejectName() string {
	return fmt.Sprintf("%s/%s-%s-%d-%d.jsonl", rejectFolder(d.b.env.UID), d.b.env.Lineage.Short(), d.e.Checkpoint, d.e.Subtask, d.b.env.Attempt)
}

// putAside makes the rejects durable before the epoch counts as delivered.
func (d *delivery) putAside(ctx context.Context) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for i := range d.lane.rejects {
		if err := enc.Encode(&d.lane.rejects[i]); err != nil {
			return err
		}
	}
	_, _, err := d.b.env.Objects.Create(ctx, d.rejectName(), &b)
	if errors.Is(err, checkpoint.ErrExists) {
		return nil // an earlier try of this very delivery, whose answer was lost
	}
	return err
}
