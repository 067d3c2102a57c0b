package verify

import (
	"context"
	"errors"
	"time"

	"etl/stream"
)

// Options say how a recount is done. The zero value of a field means its default.
type Options struct {
	// Until demands rows only for records before these offsets; later ones may have
	// theirs or not. Default: the end of the topics at the time of the recount.
	Until Offsets
	// SinkFrom is where the job's rows begin in topics that held others before;
	// default the beginning.
	SinkFrom Offsets
	// Finished says that the job has ended after its last record: then rows that are
	// behind and open transactions are faults.
	Finished bool
	// Settle repeats a recount that found something missing, or anything wrong while a
	// transaction is open, for so long: a job that is committing at this moment makes a
	// checkpoint visible one partition after the other. Default 0: once.
	Settle time.Duration
	// Examples is how many findings the result lists; default 20.
	Examples int
	// OneReader leaves out the second reading of the sinks, by an ordinary consumer.
	OneReader bool
	// Progress is told how far a long recount has come; default none.
	Progress func(Progress)
	// Clock is the time to wait in; default the system's.
	Clock stream.Clock
}

// Progress says how far a phase of a recount has come, in records or keys. Total is
// an estimate.
type Progress struct {
	Phase       string
	Done, Total int64
}

func (o *Options) withDefaults() {
	if o.Examples == 0 {
		o.Examples = 20
	}
	if o.Clock == nil {
		o.Clock = stream.SystemClock{}
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
}

const settleEvery = time.Second

// Verify recounts a pipeline. A result that is not OK is no error: errors are about
// the Spec, or about brokers that cannot be read. The memory it takes is
// about 100 bytes for each record and each row.
func Verify(ctx context.Context, s Spec, o Options) (*Result, error) {
	if errs := s.Problems(); len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	o.withDefaults()
	began := o.Clock.Now()
	// Anything may be wrong only because a commit is under way. Of a key whose rows lie in
	// several partitions, those of one may be visible before those that they follow from: a
	// few of them are missing then, and of many the later ones altered. A table or a folder
	// does not even say that more is to come.
	for {
		r, err := recount(ctx, &s, &o)
		if err != nil || r.OK || o.Clock.Now().Sub(began) >= o.Settle {
			return r, err
		}
		if err := o.Clock.Sleep(ctx, settleEvery); err != nil {
			return nil, err
		}
	}
}
