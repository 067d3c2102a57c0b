package deadletter

import (
	"context"
	"crypto/sha256"
	"fmt"

	configfile "etl/config/file"
	"etl/sink/twophase/file"
	"etl/source"
	"etl/stream"
	"etl/transform"
)

// Files are the letters in part files of format json. A letter is told by the name of its
// file and its line: a file under its final name is committed, it is whole, and neither
// it nor its name ever changes.
type Files struct{ From configfile.Letters }

var _ Letters = Files{}

// Sink returns the sink's name.
func (s Files) Sink() string { return s.From.Sink }

// Place returns the directory.
func (s Files) Place() string { return s.From.Path }

// Form returns that of lines, which count from 1 as editors count them.
func (Files) Form() Form { return Form{"FILE@LINE", `^[^/]+@[1-9]\d*$`} }

// Records returns nil when the lines hold the records.
func (s Files) Records() error {
	if s.From.AsIs {
		return nil
	}
	return lacking(s, &s.From.Fields, "map")
}

func (Files) prefix() string { return "" }

// Read reads file by file, in the order of their names.
func (s Files) Read(ctx context.Context, _ stream.World, f func(*Found) error) (others int64, err error) {
	err = file.Lines(s.From.Path, s.From.Job, s.From.UID, func(at file.Line) error {
		l, err := s.letter(at.Doc)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			others++
			return nil
		}
		place := fmt.Sprintf("%s@%d", at.Name, at.N+1)
		sum := sha256.Sum256([]byte(place))
		return f(&Found{Letter: l, Sink: s.From.Sink, At: place, ID: ID(sum[:16]), Partition: int32(at.File), Offset: at.N})
	})
	return others, err
}

// letter reads a line.
func (s Files) letter(line []byte) (stream.Letter, error) {
	switch fields := &s.From.Fields; {
	case s.From.AsIs:
		return transform.ReadLetter(line, nil)
	case fields.Whole != "":
		return transform.ReadLetterIn(line, fields.Whole)
	default:
		return transform.ReadLetter(line, fields.Names)
	}
}

func (s Files) source(ctx context.Context, to *reading) (source.Connector, error) {
	return newListed(ctx, s, to)
}
