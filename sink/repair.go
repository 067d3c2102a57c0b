package sink

import (
	"context"

	"etl/checkpoint"
)

// Repairer is what a Committer also is when single transactions of its outside can be
// looked up and ended by name: for a person who has to decide ("etl txn"), never for
// the engine, whose decisions stand in the log.
type Repairer interface {
	// IDOf returns what Inspect calls the thing that c stands for.
	IDOf(c *checkpoint.Committable) (string, error)
	// End commits or aborts what Inspect or Find calls id, whoever left it, and asks
	// nobody whether that is right: the caller has opened an attempt and looked at
	// the checkpoints. Ending it the same way twice is no error.
	End(ctx context.Context, id string, commit bool) error
	// Find lists what is in doubt outside under names that begin with prefix, of any
	// job, read-only.
	Find(ctx context.Context, prefix string) ([]InDoubt, error)
}
