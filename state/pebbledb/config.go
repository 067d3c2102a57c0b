package pebbledb

import (
	"encoding/hex"
	"fmt"
	"io"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"etl/state/keyed"
	"etl/stream"
)

// Config configures the backend of one attempt in one process.
type Config struct {
	// World gives clock, entropy and log.
	World stream.World
	// FS is the file system of Dir; nil means the system's.
	FS vfs.FS
	// Dir is the folder of this job's local state in this process. It is made if
	// it does not exist, with mode 0700.
	Dir     string
	Lineage stream.Lineage
	Attempt stream.Attempt
	// MaxParallelism is the number of key groups; 0 means the default.
	MaxParallelism int
	// Memory is the budget of the keyed caches together, in bytes; 0 means
	// keyed.DefaultBudget. The base comes on top with its own caches, about a
	// quarter of it, and only once there is one.
	Memory int64
	Policy keyed.Policy
	// ObjectName makes the name of an object in checkpoint storage out of a part
	// that is unique in the attempt. Lineage and attempt must be in it. The default
	// is the form that package checkpoint uses.
	ObjectName func(rest string) string
	// Timeout bounds a flush or a hard-link copy of the base, default 1 minute: on
	// a full disk Pebble waits for ever.
	Timeout time.Duration
}

func (c Config) withDefaults() (Config, error) {
	if c.Dir == "" {
		return c, stream.Errorf(stream.BadConfig, "state.no_dir", "open the state backend", "pebble", "it has no folder")
	}
	if c.FS == nil {
		c.FS = vfs.Default
	}
	if c.MaxParallelism == 0 {
		c.MaxParallelism = stream.DefaultMaxParallelism
	}
	if c.Memory == 0 {
		c.Memory = keyed.DefaultBudget
	}
	if c.Timeout == 0 {
		c.Timeout = time.Minute
	}
	if c.ObjectName == nil {
		lineage, attempt := c.Lineage.Short(), c.Attempt
		c.ObjectName = func(rest string) string { return fmt.Sprintf("objects/%s-%d-%s", lineage, attempt, rest) }
	}
	return c, nil
}

// random returns n random bytes in hex: the part of a name that no other life of
// a process has.
func (c *Config) random(n int) (string, error) {
	b := make([]byte, n)
	if _, err := io.ReadFull(c.World.Entropy, b); err != nil {
		return "", err
	}
	return hex.EncodeToString(b), nil
}
