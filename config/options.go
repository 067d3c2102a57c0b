package config

import (
	"context"

	"etl/checkpoint"
	"etl/pipeline"
	"etl/stream"
)

// OpenStorage opens the storage of the job's checkpoints. Nothing is created
// before the first write.
func (j *Job) OpenStorage(ctx context.Context, w stream.World) (checkpoint.Storage, error) {
	return j.OpenStorageOf(ctx, w, j.Spec.Name)
}

// OpenStorageOf opens the storage of another job beside this one, such as a replay of
// its dead letters.
func (j *Job) OpenStorageOf(ctx context.Context, w stream.World, name string) (checkpoint.Storage, error) {
	open := j.registry.storages[j.Storage.Scheme]
	if open == nil {
		return nil, stream.Errorf(stream.BadConfig, "checkpoint.storage", "open storage", j.Storage.String(), "this program has no storage for %s:", j.Storage.Scheme)
	}
	return open(ctx, w, name, j.Storage)
}

// Options returns how the engine is to run the job, with its storage opened. The
// caller adds what is not of the file: listener, restore options, holder.
func (j *Job) Options(ctx context.Context, w stream.World) (pipeline.Options, error) {
	o := pipeline.Options{World: w, Policy: j.enginePolicy(), Restart: j.Spec.Restart.strategy(),
		DeleteOnCancel: j.Spec.Checkpoint.OnCancel == "delete", ConfigHash: j.ConfigHash}
	st, err := j.OpenStorage(ctx, w)
	if err != nil {
		return o, err
	}
	o.Storage = st
	if !j.keyed() {
		return o, nil
	}
	m := j.registry.backends[j.Spec.State.Backend]
	if m == nil {
		return o, stream.Errorf(stream.BadConfig, "state.backend", "open state", j.Spec.State.Backend, "this program has no such state backend")
	}
	o.NewBackend = m(j.State)
	return o, nil
}

// enginePolicy undoes the defaults where the engine would put others in: 0 means
// "default" to it.
func (j *Job) enginePolicy() checkpoint.Policy {
	p := j.Policy
	if p.MinPause == 0 {
		p.MinPause = checkpoint.NoPause
	}
	if p.TolerableFailures == 0 {
		p.TolerableFailures = checkpoint.NoFailures
	}
	return p
}
