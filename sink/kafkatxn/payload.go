package kafkatxn

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"etl/checkpoint"
	"etl/stream"
)

// Kind and Version are those of the committables this package writes; the format is
// docs/formats/kafka-committable.md.
const (
	Kind    = "kafka-txn"
	Version = 1
)

// Txn is one transaction as its coordinator knows it.
type Txn struct {
	TxID string `json:"txid"`
	// PID and Epoch are those the rows were written with: the epoch as it is after
	// the flush and before any end. On transaction version 2 the end raises it.
	PID   int64 `json:"pid"`
	Epoch int16 `json:"epoch"`
	// TV is the transaction version the rows were written under; EndTxn must be sent
	// in the version that goes with it, for mixing them over repeats breaks.
	TV int16 `json:"tv"`
}

// ended is the epoch the coordinator shows after the transaction was ended.
func (t Txn) ended() int16 {
	if t.TV >= 2 {
		return t.Epoch + 1
	}
	return t.Epoch
}

// Payload is everything another process needs to finish and to verify a transaction.
type Payload struct {
	Txn
	Slot int `json:"slot"`
	// Group, Topic and TopicID say where the marker is: partition 0 of Topic.
	Group   string         `json:"group"`
	Topic   string         `json:"topic"`
	TopicID stream.TopicID `json:"topic_id"`
	// StartMillis is when the transaction was begun by the job's clock, at or before
	// its first row; TimeoutMillis after that the broker may abort it.
	StartMillis   int64 `json:"start_ms"`
	TimeoutMillis int64 `json:"timeout_ms"`
	// Written lists what the transaction wrote to.
	Written []Written `json:"written"`
}

// Written are partitions of a topic and the last acknowledged offset in each.
type Written struct {
	Topic      string  `json:"topic"`
	Partitions []int32 `json:"partitions"`
	Last       []int64 `json:"last"`
}

// Start returns when the transaction was begun.
func (p *Payload) Start() time.Time { return time.UnixMilli(p.StartMillis).UTC() }

// Deadline returns when the broker may abort the transaction.
func (p *Payload) Deadline() time.Time {
	return p.Start().Add(time.Duration(p.TimeoutMillis) * time.Millisecond)
}

// Encode returns the payload as it is stored.
func (p *Payload) Encode() ([]byte, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	return json.Marshal(p)
}

// Decode reads the payload of a committable of this package.
func Decode(c *checkpoint.Committable) (*Payload, error) {
	p, err := decode(c)
	if err != nil {
		return nil, stream.Errorf(stream.RestoreRefused, "kafka.committable", "read committable",
			fmt.Sprintf("checkpoint %s of %s", c.Checkpoint, c.Lane()), "%w", err)
	}
	return p, nil
}

func decode(c *checkpoint.Committable) (*Payload, error) {
	if c.Kind != Kind {
		return nil, fmt.Errorf("its kind is %q, not %q", c.Kind, Kind)
	}
	if c.Version != Version {
		return nil, fmt.Errorf("its version is %d; this program knows %d", c.Version, Version)
	}
	d := json.NewDecoder(bytes.NewReader(c.Payload))
	d.DisallowUnknownFields()
	p := new(Payload)
	if err := d.Decode(p); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, errors.New("there is something after it")
	}
	return p, p.check()
}

// check refuses what no writer of ours can have meant.
func (p *Payload) check() error {
	switch {
	case p.TxID == "" || p.Group == "" || p.Topic == "":
		return errors.New("transactional id, marker group and marker topic must be given")
	case p.PID < 0 || p.Epoch < 0 || p.TV < 0 || p.Slot < 0:
		return fmt.Errorf("producer %d epoch %d transaction version %d slot %d: none may be negative", p.PID, p.Epoch, p.TV, p.Slot)
	case p.StartMillis <= 0 || p.TimeoutMillis <= 0:
		return fmt.Errorf("start %d and timeout %d must be positive", p.StartMillis, p.TimeoutMillis)
	case len(p.Written) == 0:
		return errors.New("it wrote to no partition: an empty transaction cannot be committed")
	}
	for _, w := range p.Written {
		if w.Topic == "" || len(w.Partitions) == 0 || len(w.Partitions) != len(w.Last) {
			return fmt.Errorf("topic %q has %d partitions and %d offsets", w.Topic, len(w.Partitions), len(w.Last))
		}
		for i := range w.Partitions {
			if w.Partitions[i] < 0 || w.Last[i] < 0 {
				return fmt.Errorf("topic %q partition %d offset %d: neither may be negative", w.Topic, w.Partitions[i], w.Last[i])
			}
		}
	}
	return nil
}

// spots returns the partitions written to with the last offset of each.
func (p *Payload) spots() map[spot]int64 {
	m := map[spot]int64{}
	for _, w := range p.Written {
		for i, n := range w.Partitions {
			m[spot{w.Topic, n}] = w.Last[i]
		}
	}
	return m
}

// spot is one partition.
type spot struct {
	topic     string
	partition int32
}

// String returns "topic/partition".
func (s spot) String() string { return fmt.Sprintf("%s/%d", s.topic, s.partition) }
