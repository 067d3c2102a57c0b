package main

import (
	"context"
	"path/filepath"

	"etl/checkpoint"
	"etl/checkpoint/filestore"
	"etl/checkpoint/memstore"
	"etl/config"
	"etl/config/file"
	"etl/config/http"
	"etl/config/kafka"
	"etl/config/postgres"
	"etl/config/redis"
	"etl/pipeline"
	"etl/state"
	"etl/state/keyed"
	"etl/state/pebbledb"
	"etl/stream"
)

// registry joins the component types, storages and state backends of this program.
func registry(o kafka.Options) *config.Registry {
	r := config.NewRegistry()
	kafka.Register(r, o)
	postgres.Register(r, postgres.Options{AcceptForeign: o.AcceptForeign})
	file.Register(r, file.Options{AcceptForeign: o.AcceptForeign})
	redis.Register(r)
	http.Register(r)
	r.Storage("file", func(_ context.Context, w stream.World, job string, url config.StorageURL) (checkpoint.Storage, error) {
		return filestore.Open(w, filepath.Join(url.Path, job))
	})
	r.Storage("memory", func(_ context.Context, _ stream.World, job string, _ config.StorageURL) (checkpoint.Storage, error) {
		return memstore.Open(job), nil
	})
	r.Backend("pebble", pebbleBackend)
	r.Backend("memory", memoryBackend)
	return r
}

func pebbleBackend(s config.BackendSpec) func(pipeline.BackendEnv) (state.Backend, error) {
	return func(e pipeline.BackendEnv) (state.Backend, error) {
		return pebbledb.New(pebbledb.Config{World: e.World, Dir: s.Dir, Lineage: e.Lineage, Attempt: e.Attempt, MaxParallelism: e.MaxParallelism,
			Memory: s.Memory, Policy: keyed.Policy{Full: s.Snapshot == "full"}})
	}
}

func memoryBackend(s config.BackendSpec) func(pipeline.BackendEnv) (state.Backend, error) {
	return func(e pipeline.BackendEnv) (state.Backend, error) {
		return keyed.NewMemory(keyed.MemoryConfig{Lineage: e.Lineage, MaxParallelism: e.MaxParallelism, Policy: keyed.Policy{Full: s.Snapshot == "full"}}), nil
	}
}
