package main

import (
	"bytes"
	"context"
	"encoding/binary"

	"github.com/jackc/pgx/v5"
)

// memory is rows as pgx copies them.
type memory struct {
	keys    []string
	numbers []int64
	at, n   int
	values  [5]any
}

func (m *memory) Next() bool { m.at++; return m.at <= m.n }

func (m *memory) Values() ([]any, error) {
	i := (m.at - 1) % len(m.keys)
	n := m.numbers[i]
	m.values = [5]any{m.keys[i], n, actionOf(n), priceOf(n), pad}
	return m.values[:], nil
}

func (m *memory) Err() error { return nil }

// floorCopyPgx copies the rows of a checkpoint in a transaction, the way pgx offers.
func floorCopyPgx(ctx context.Context, w *work) error {
	c, err := events.table(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(ctx) }() // the process ends
	m := &memory{n: rowsOfCopy}
	m.keys, m.numbers = rowsOf(8 * rowsOfBatch)
	for w.meter.seen.Load() < int64(w.records) {
		m.at = 0
		if _, err := c.CopyFrom(ctx, pgx.Identifier{"bench"}, events.names, m); err != nil {
			return err
		}
		w.meter.add(rowsOfCopy)
	}
	return nil
}

// floorCopyIn does the same with rows that a program encodes by hand: the least there is.
func floorCopyIn(ctx context.Context, w *work) error {
	c, err := events.table(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(ctx) }() // the process ends
	keys, numbers := rowsOf(8 * rowsOfBatch)
	for b := []byte(nil); w.meter.seen.Load() < int64(w.records); {
		b = append(b[:0], "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"...)
		for i := range rowsOfCopy {
			i %= len(keys)
			n := numbers[i]
			b = number(text(binary.BigEndian.AppendUint16(b, 5), keys[i]), n)
			b = text(number(text(b, actionOf(n)), priceOf(n)), pad)
		}
		b = append(b, 0xff, 0xff)
		if _, err := c.PgConn().CopyFrom(ctx, bytes.NewReader(b), "COPY bench (k, n, action, price, pad) FROM STDIN (FORMAT binary)"); err != nil {
			return err
		}
		w.meter.add(rowsOfCopy)
	}
	return nil
}

func text(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}

func number(b []byte, n int64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(b, 8), uint64(n))
}

// floorUpsert upserts rows in batches, the way pgx offers.
func floorUpsert(ctx context.Context, w *work) error {
	c, err := counts.table(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(ctx) }() // the process ends
	keys, numbers := rowsOf(rowsOfUpserts)
	for at := 0; w.meter.seen.Load() < int64(w.records); at = (at + rowsOfBatch) % rowsOfUpserts {
		_, err := c.Exec(ctx, "INSERT INTO bench (k, n) SELECT * FROM unnest($1::text[], $2::int8[]) ON CONFLICT (k) DO UPDATE SET n = EXCLUDED.n", keys[at:at+rowsOfBatch], numbers[at:at+rowsOfBatch])
		if err != nil {
			return err
		}
		w.meter.add(rowsOfBatch)
	}
	return nil
}
