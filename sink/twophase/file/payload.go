package file

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"etl/checkpoint"
	"etl/stream"
)

// payload is what a committable says; docs/formats/file.md is its description.
type payload struct {
	// Files are the parts, in the order they were begun.
	Files []part `json:"files"`
}

// part is one file.
type part struct {
	// Pending is its name in the epoch's directory, Final the one for readers, relative
	// to the sink's path.
	Pending string `json:"pending"`
	Final   string `json:"final"`
	Size    int64  `json:"size"`
	// Sum is the CRC-32C of its bytes.
	Sum  uint32 `json:"crc32c"`
	Rows int64  `json:"rows"`
}

func (p *payload) encode() ([]byte, error) { return json.Marshal(p) }

// decode reads the payload of a committable of this package, and refuses what could
// lead anywhere else than to the sink's own files.
func decode(c *checkpoint.Committable) (*payload, error) {
	p := new(payload)
	err := p.read(c)
	if err != nil {
		return nil, stream.Errorf(stream.RestoreRefused, "file.committable", "read committable", fmt.Sprintf("checkpoint %s of %s", c.Checkpoint, c.Lane()), "%w", err)
	}
	return p, nil
}

func (p *payload) read(c *checkpoint.Committable) error {
	if c.Kind != Kind || c.Version != Version {
		return fmt.Errorf("it is of kind %q version %d; this program knows %q version %d", c.Kind, c.Version, Kind, Version)
	}
	d := json.NewDecoder(bytes.NewReader(c.Payload))
	d.DisallowUnknownFields()
	if err := d.Decode(p); err != nil {
		return err
	}
	if d.More() {
		return errors.New("there is something after it")
	}
	if len(p.Files) == 0 {
		return errors.New("it has no files")
	}
	rows := int64(0)
	for _, f := range p.Files {
		if err := f.check(); err != nil {
			return err
		}
		rows += f.Rows
	}
	if rows != c.Rows {
		return fmt.Errorf("its files have %d rows, and it says %d", rows, c.Rows)
	}
	return nil
}

func (f *part) check() error {
	switch {
	case !strings.HasSuffix(f.Pending, ".pending") || filepath.Base(f.Pending) != f.Pending:
		return fmt.Errorf("%q is no pending file", f.Pending)
	case !filepath.IsLocal(f.Final) || filepath.Clean(f.Final) != f.Final || strings.HasPrefix(f.Final, hidden+"/"):
		return fmt.Errorf("%q is no file below the sink's path", f.Final)
	case f.Size < 0 || f.Rows < 1:
		return fmt.Errorf("%q has %d bytes and %d rows", f.Final, f.Size, f.Rows)
	}
	return nil
}
