package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"

	walhttp "etl/sink/wal/http"
	"etl/stream"
)

// httpSection compares the write-ahead log, segments on disk and checkpoints included, with
// a bare program that makes requests with the same bodies.
func httpSection(ctx context.Context, l *lab) error {
	if err := l.rounds(ctx, "floor-post", "etl-wal-http"); err != nil {
		return err
	}
	l.ratio("etl-wal-http", "floor-post", rate, "rate", "-")
	l.ratio("etl-wal-http", "floor-post", cpu, "CPU", "-")
	fmt.Printf("   deliveries of %d rows: %.0f/s, bare requests %.0f/s\n", rowsOfRequest, l.median("etl-wal-http", rate)/rowsOfRequest, l.median("floor-post", rate)/rowsOfRequest)
	return nil
}

const rowsOfRequest = 100

// taker is an endpoint that takes everything.
func taker() (string, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })) // until the process ends
	}()
	return "http://" + l.Addr().String() + "/", nil
}

// documents are rows as JSON.
func documents(n int) (out [][]byte) {
	keys, numbers := rowsOf(n)
	for i := range keys {
		out = append(out, fmt.Appendf(nil, `{"k":%q,"n":%d}`, keys[i], numbers[i]))
	}
	return out
}

// floorPost makes the same requests with nothing behind them.
func floorPost(ctx context.Context, w *work) error {
	to, err := taker()
	if err != nil {
		return err
	}
	b, docs := []byte{}, documents(rowsOfBatch)
	for at := 0; w.meter.seen.Load() < int64(w.records); at += rowsOfRequest {
		b = append(b[:0], '[')
		for i := range rowsOfRequest {
			b = append(append(b, docs[(at+i)%len(docs)]...), ',')
		}
		b[len(b)-1] = ']'
		if err := post(ctx, to, b); err != nil {
			return err
		}
		w.meter.add(rowsOfRequest)
	}
	return nil
}

func post(ctx context.Context, to string, b []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(b))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.Body.Close()
}

func etlWALHTTP(ctx context.Context, w *work) error {
	to, err := taker()
	if err != nil {
		return err
	}
	b := stream.NewBatch(nil)
	for i, doc := range documents(rowsOfBatch) {
		b.Append(stream.Record{Key: []byte{}, Value: doc, Topic: "in", Offset: int64(i), Pos: -1})
	}
	return w.through(ctx, walhttp.New(walhttp.Config{URL: to, MaxRows: rowsOfRequest}), &flow{batches: []*stream.Batch{b}, repeats: 12})
}
