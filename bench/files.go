package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"

	"etl/expr"
	"etl/sink/twophase/file"
	"etl/stream"
)

// filesSection compares the file sink with the bare library writer on the same rows,
// from the same memory to the same disk. The sink's share holds its commits.
func filesSection(ctx context.Context, l *lab) error {
	works := []string{"floor-json", "etl-json", "floor-json-zstd", "etl-json-zstd", "floor-parquet-rows", "etl-parquet"}
	if err := l.with(max(l.o.records, 10*rowsOfEpoch)).rounds(ctx, append(works, "floor-parquet")...); err != nil {
		return err
	}
	for i := 0; i < len(works); i += 2 {
		l.ratio(works[i+1], works[i], rate, "rate", ">= 0.80")
		l.ratio(works[i+1], works[i], cpu, "CPU", "-")
	}
	fmt.Println("   floor-parquet knows its columns when it is compiled, which no pipeline does:")
	l.ratio("etl-parquet", "floor-parquet", rate, "rate", "-")
	return nil
}

// fileRow is a row of these runs.
type fileRow struct {
	User   *string `parquet:"user,optional"`
	Action *string `parquet:"action,optional"`
	Seq    *int64  `parquet:"seq,optional"`
	Price  *int64  `parquet:"price,optional"`
}

const (
	// rowsOfFile is how many rows lie in memory; they are written over and over.
	rowsOfFile = 4096
	// rowsOfEpoch go between two checkpoints.
	rowsOfEpoch = 128 * rowsOfFile
)

// fileRows are rows, and the same as JSON lines.
func fileRows() (rows []fileRow, lines [][]byte) {
	actions := []string{"buy", "cart", "fav"}
	for i := range rowsOfFile {
		user, seq, price := fmt.Sprintf("user-%08d", i*7919%100_000), int64(i), int64(i)*37%10_000
		rows = append(rows, fileRow{&user, &actions[i%3], &seq, &price})
		lines = append(lines, fmt.Appendf(nil, `{"user":%q,"action":%q,"seq":%d,"price":%d,"pad":"xxxxxxxxxxxxxxxxxxxxx"}`, user, actions[i%3], seq, price))
	}
	return rows, lines
}

// plainFile is a file as anybody would write one.
func plainFile(w *work, name string, each func(f *os.File, next func() bool) error) error {
	dir, err := os.MkdirTemp("", "etl-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for epoch := 0; w.meter.seen.Load() < int64(w.records); epoch++ {
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%d%s", epoch, name)))
		if err != nil {
			return err
		}
		n := 0
		err = each(f, func() bool {
			w.meter.add(rowsOfFile * min(n, 1))
			n++
			return n <= rowsOfEpoch/rowsOfFile
		})
		if err == nil {
			err = f.Sync()
		}
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func floorJSON(_ context.Context, w *work) error {
	_, lines := fileRows()
	return plainFile(w, ".jsonl", func(f *os.File, next func() bool) error {
		out := bufio.NewWriterSize(f, 64<<10)
		for next() {
			for _, line := range lines {
				_, _ = out.Write(line) // its errors come with Flush
				_ = out.WriteByte('\n')
			}
		}
		return out.Flush()
	})
}

func floorJSONZstd(_ context.Context, w *work) error {
	_, lines := fileRows()
	return plainFile(w, ".jsonl.zst", func(f *os.File, next func() bool) error {
		z, err := zstd.NewWriter(f, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20)) // as the sink has it
		if err != nil {
			return err
		}
		out := bufio.NewWriterSize(z, 64<<10)
		for next() {
			for _, line := range lines {
				_, _ = out.Write(line) // its errors come with Flush
				_ = out.WriteByte('\n')
			}
		}
		if err := out.Flush(); err != nil {
			return err
		}
		return z.Close()
	})
}

func floorParquet(_ context.Context, w *work) error {
	rows, _ := fileRows()
	return plainFile(w, ".parquet", func(f *os.File, next func() bool) error {
		out := parquet.NewGenericWriter[fileRow](f)
		for next() {
			for from := 0; from < len(rows); from += 256 {
				if _, err := out.Write(rows[from : from+256]); err != nil {
					return err
				}
			}
		}
		return out.Close()
	})
}

// floorParquetRows knows its columns only when it runs, as a pipeline does.
func floorParquetRows(_ context.Context, w *work) error {
	rows, _ := fileRows()
	schema := parquet.SchemaOf(fileRow{})
	return plainFile(w, ".parquet", func(f *os.File, next func() bool) error {
		out := parquet.NewGenericWriter[any](f, schema)
		values, buf := make([]parquet.Value, 0, 256*4), make([]parquet.Row, 0, 256)
		for next() {
			for from := 0; from < len(rows); from += 256 {
				values, buf = values[:0], buf[:0]
				for i := range rows[from : from+256] {
					x, at := &rows[from+i], len(values)
					values = append(values, parquet.ByteArrayValue([]byte(*x.User)).Level(0, 1, 0), parquet.ByteArrayValue([]byte(*x.Action)).Level(0, 1, 1),
						parquet.Int64Value(*x.Seq).Level(0, 1, 2), parquet.Int64Value(*x.Price).Level(0, 1, 3))
					buf = append(buf, values[at:len(values):len(values)])
				}
				if _, err := out.WriteRows(buf); err != nil {
					return err
				}
			}
		}
		return out.Close()
	})
}

func etlJSON(ctx context.Context, w *work) error {
	return sinkFiles(ctx, w, file.Config{}, false)
}

func etlJSONZstd(ctx context.Context, w *work) error {
	return sinkFiles(ctx, w, file.Config{Compression: file.Zstd}, false)
}

func etlParquet(ctx context.Context, w *work) error {
	rows, _ := fileRows()
	text := func(row *file.Row, s *string) { row.Value(expr.StringValue(*s)) }
	cfg := file.Config{Format: file.Parquet, Columns: []file.Column{{Name: "user", Type: file.Type{Kind: file.String}}, {Name: "action", Type: file.Type{Kind: file.String}},
		{Name: "seq", Type: file.Type{Kind: file.Int64}}, {Name: "price", Type: file.Type{Kind: file.Int64}}}}
	cfg.NewEncoder = func() file.Encoder {
		return func(r *stream.Record, row *file.Row) error {
			x := &rows[r.Offset]
			text(row, x.User)
			text(row, x.Action)
			row.Value(expr.IntValue(*x.Seq))
			row.Value(expr.IntValue(*x.Price))
			return nil
		}
	}
	return sinkFiles(ctx, w, cfg, true)
}

// sinkFiles writes the rows through the sink, commits included.
func sinkFiles(ctx context.Context, w *work, cfg file.Config, bare bool) error {
	dir, err := os.MkdirTemp("", "etl-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	cfg.Path, cfg.RollSize = dir, 1<<40
	f := &flow{writer: file.NewWriter(cfg), committer: file.NewCommitter(cfg), batches: fileBatches(bare), repeats: rowsOfEpoch / rowsOfFile}
	return w.drive(ctx, f)
}

// fileBatches are the rows as records; bare ones have no value, and their offset names
// the row.
func fileBatches(bare bool) (out []*stream.Batch) {
	_, lines := fileRows()
	for from := 0; from < rowsOfFile; from += 512 {
		b := stream.NewBatch(&stream.Schema{Format: stream.JSON})
		for i := from; i < from+512; i++ {
			r := stream.Record{Offset: int64(i), Pos: -1}
			if !bare {
				r.Value = lines[i]
			}
			b.Append(r)
		}
		out = append(out, b)
	}
	return out
}
