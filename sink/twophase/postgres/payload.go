package postgres

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"etl/checkpoint"
	"etl/sink/sqltxn"
	"etl/stream"
)

// The kinds of committables; their format is docs/formats/postgres.md.
const (
	KindPrepared = "postgres-prepared"
	KindStaged   = "postgres-staged"
	Version      = 1
)

// preparedPayload is a prepared transaction.
type preparedPayload struct {
	GID string `json:"gid"`
	// Book is the schema of the books, where its marker is.
	Book string `json:"book"`
}

// payload is what a committable says: one of the two is set.
type payload struct {
	prepared *preparedPayload
	merge    *sqltxn.Merge
}

// decode reads the payload of a committable of this package.
func decode(c *checkpoint.Committable) (p payload, err error) {
	switch {
	case c.Version != Version:
		err = fmt.Errorf("its version is %d; this program knows %d", c.Version, Version)
	case c.Kind == KindPrepared:
		p.prepared = new(preparedPayload)
		if err = strict(c.Payload, p.prepared); err == nil {
			err = p.prepared.check(c)
		}
	case c.Kind == KindStaged:
		p.merge = new(sqltxn.Merge)
		if err = strict(c.Payload, p.merge); err == nil {
			err = p.merge.Check()
		}
	default:
		err = fmt.Errorf("its kind is %q, not %q or %q", c.Kind, KindPrepared, KindStaged)
	}
	if err != nil {
		return p, stream.Errorf(stream.RestoreRefused, "postgres.committable", "read committable", fmt.Sprintf("checkpoint %s of %s", c.Checkpoint, c.Lane()), "%w", err)
	}
	return p, nil
}

// strict reads one JSON object without unknown fields and nothing after it.
func strict(b []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if d.More() {
		return errors.New("there is something after it")
	}
	return nil
}

func (p *preparedPayload) check(c *checkpoint.Committable) error {
	if len(p.GID) == 0 || len(p.GID) > sqltxn.MaxGID {
		return fmt.Errorf("its gid has %d bytes", len(p.GID))
	}
	return sqltxn.CheckName(p.Book)
}

// committable makes a committable of a payload.
func committable(kind string, p any) (checkpoint.Committable, error) {
	b, err := json.Marshal(p)
	return checkpoint.Committable{Kind: kind, Version: Version, Payload: b}, err
}
