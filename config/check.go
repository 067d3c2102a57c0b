package config

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"etl/checkpoint"
	"etl/expr"
	"etl/stream"
)

// at returns the place of a key of the file, or of the nearest one above it that
// is there.
func (b *builder) at(path string) Pos {
	n := b.root.find(path)
	if n == b.root {
		return Pos{}
	}
	return valueAt(n)
}

// checkPolicy reports what is wrong with the checkpoint and restart sections.
func (b *builder) checkPolicy() {
	c := &b.spec.Checkpoint
	bad := map[string]bool{}
	for path, d := range map[string]Duration{"checkpoint.interval": c.Interval, "checkpoint.timeout": c.Timeout,
		"restart.initial": b.spec.Restart.Initial, "restart.max": b.spec.Restart.Max, "restart.reset_after": b.spec.Restart.ResetAfter} {
		if n := b.root.find(path); d <= 0 && n.path == path && !b.reported(path) {
			b.add(valueAt(n), path, "config.range", d.String()+" is not longer than 0", "write a positive duration such as 10s")
			bad["checkpoint."+path[strings.LastIndexByte(path, '.')+1:]] = true
		}
	}
	if p := c.MinPause; p != nil && *p < 0 {
		b.add(b.at("checkpoint.min_pause"), "checkpoint.min_pause", "config.range", p.String()+" is less than 0", "write 0 for no pause")
	}
	for _, err := range b.result.Policy.Problems() {
		var e *stream.Error
		if !errors.As(err, &e) || bad[e.Code] || b.reported(e.Code) || e.Code == "checkpoint.min_pause" && bad["checkpoint.timeout"] {
			continue
		}
		b.add(b.at(e.Code), e.Code, e.Code, sentence(e), e.Fix)
	}
	if c.MaxConcurrent == 1 && c.Timeout < c.Interval && c.Timeout > 0 {
		b.put(Warning, b.at("checkpoint.timeout"), "checkpoint.timeout", "checkpoint.timeout_short",
			fmt.Sprintf("timeout %v is shorter than interval %v", c.Timeout, c.Interval), "a checkpoint is given up before the next one is due: raise timeout")
	}
	if r := &b.spec.Restart; r.Initial > r.Max && !b.doubts("restart.initial", "restart.max") {
		b.add(b.at("restart.initial"), "restart.initial", "config.range", fmt.Sprintf("initial %v is longer than max %v", r.Initial, r.Max), "raise restart.max")
	}
}

// formatVersion is the version of the file's format that is read.
const formatVersion = 1

func (b *builder) checkVersion() {
	if v := b.spec.Version; v > formatVersion {
		b.add(b.at("version"), "version", "config.version", fmt.Sprintf("version %d is newer than this program, which reads version %d", v, formatVersion), "use a newer etl")
	}
}

// reported reports whether there is a problem with exactly this key.
func (b *builder) reported(path string) bool {
	for _, p := range b.problems {
		if p.Path == path && p.Severity == Error {
			return true
		}
	}
	return false
}

// checkPlaces finds out where checkpoints, state and the HTTP address are, and
// what is wrong with these places.
func (b *builder) checkPlaces() {
	b.storage()
	b.state()
	b.http()
	r := b.result
	if r.Storage.Scheme != "file" || r.Storage.Path == "" || r.State.Dir == "" || b.spec.State.Backend == "memory" {
		return
	}
	storage, dir := filepath.Join(r.Storage.Path, b.spec.Name), r.State.Dir
	switch {
	case within(storage, dir) || within(dir, storage):
		b.add(b.at("state.dir"), "state.dir", "state.inside_storage", fmt.Sprintf("state in %s and checkpoints in %s lie inside each other", dir, storage), "give them folders side by side, on different disks if there are")
	case b.spec.Checkpoint.Storage == "": // nobody chose this place
	case b.sameDisk(storage, dir):
		b.put(Warning, b.at("checkpoint.storage"), "checkpoint.storage", "state.same_disk",
			fmt.Sprintf("checkpoints in %s and state in %s are on one disk: both are lost with it", storage, dir), "keep checkpoints on storage that survives the machine")
	}
}

func within(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

func (b *builder) sameDisk(x, y string) bool {
	dx, okx := b.loader.Outside.device(x)
	dy, oky := b.loader.Outside.device(y)
	return okx && oky && dx == dy
}

// storage reads checkpoint.storage.
func (b *builder) storage() {
	const path = "checkpoint.storage"
	text := b.spec.Checkpoint.Storage
	if text == "" {
		b.result.Storage = StorageURL{Scheme: "file", Path: filepath.Join(b.loader.dataDir(), "checkpoints")}
		return
	}
	scheme, rest, ok := strings.Cut(text, ":")
	var known []string
	for s := range b.registry.storages {
		known = append(known, s+":")
	}
	switch {
	case ok && b.registry.storages[scheme] == nil && (scheme == "s3" || scheme == "gs" || scheme == "azblob"):
		b.add(b.at(path), path, "config.not_yet", scheme+" storage comes in a later version", "use file:///path")
	case !ok || b.registry.storages[scheme] == nil && len(known) > 0:
		fix := "write file:///path"
		if near := expr.Near(scheme+":", known); ok && len(near) > 0 {
			fix = "did you mean " + quote(near[0]+rest) + "?"
		}
		b.add(b.at(path), path, "checkpoint.storage", quote(text)+" is not a place for checkpoints", fix)
	case scheme == "file":
		b.result.Storage = StorageURL{Scheme: scheme, Path: b.folder(path, strings.TrimPrefix(rest, "//"))}
	default:
		b.result.Storage = StorageURL{Scheme: scheme}
		if rest != "" {
			b.add(b.at(path), path, "checkpoint.storage", quote(text)+" has a path", "write "+scheme+":")
		}
	}
}

// folder demands an absolute path.
func (b *builder) folder(path, dir string) string {
	if !filepath.IsAbs(dir) || strings.ContainsRune(dir, 0) {
		b.add(b.at(path), path, "config.path", quote(dir)+" is not an absolute path", "begin it with /: a relative one would depend on where etl is started")
		return ""
	}
	return filepath.Clean(dir)
}

// dataDir is the folder for everything whose place the file does not give.
func (l *Loader) dataDir() string {
	if l.DataDir == "" {
		return "/var/lib/etl"
	}
	return l.DataDir
}

// state reads the state section.
func (b *builder) state() {
	s := &b.spec.State
	dir := filepath.Join(b.loader.dataDir(), "state")
	if s.Dir != "" {
		dir = b.folder("state.dir", s.Dir)
	}
	if dir != "" && b.spec.Name != "" {
		dir = filepath.Join(dir, b.spec.Name)
	}
	b.result.State = BackendSpec{Dir: dir, Memory: int64(s.Memory), Snapshot: b.spec.Checkpoint.Snapshot}
	if b.registry.backends[s.Backend] == nil && len(b.registry.backends) > 0 && !b.reported("state.backend") {
		var words []string
		for w := range b.registry.backends {
			words = append(words, w)
		}
		slices.Sort(words)
		b.add(b.at("state.backend"), "state.backend", "config.word", quote(s.Backend)+" is not a state backend", "write "+oneOf(words))
	}
	if s.Memory < 1<<20 && !b.reported("state.memory") {
		b.add(b.at("state.memory"), "state.memory", "config.range", s.Memory.String()+" is less than 1MiB", "keyed state needs some memory; 64MiB is little")
	}
}

// http demands a loopback address: whoever can reach it can read the numbers of
// the job, and nobody is asked who they are.
func (b *builder) http() {
	const path = "http.address"
	addr := b.spec.HTTP.Address
	if addr == "none" || b.reported(path) {
		return
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		b.add(b.at(path), path, "http.address", quote(addr)+" is not host:port", "write 127.0.0.1:8150, or none")
		return
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		b.add(b.at(path), path, "http.address", quote(port)+" is not a port", "write a number up to 65535, such as 127.0.0.1:8150; 0 takes any that is free")
		return
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		b.add(b.at(path), path, "http.not_loopback", fmt.Sprintf("%s can be reached from other machines, and asks nobody for a password", quote(addr)), "use 127.0.0.1 and put a proxy in front that does")
	}
}

// exactly reports whether the job takes aligned checkpoints.
func (b *builder) exactly() bool { return b.result.Policy.Mode == checkpoint.ExactlyOnce }
