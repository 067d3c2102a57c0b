package config

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"etl/checkpoint"
	"etl/internal/invariant"
	"etl/pipeline"
	"etl/state"
	"etl/stream"
)

// Section is one of the four groups of components of a file.
type Section string

// The sections.
const (
	Connections Section = "connections"
	Sources     Section = "sources"
	Transforms  Section = "transforms"
	Sinks       Section = "sinks"
)

// sections are in the order in which they are built.
var sections = []Section{Connections, Sources, Transforms, Sinks}

// Registry knows the component types of the pipeline file by their words. A
// program fills it before it loads a file; package config itself brings only the
// transforms that need no library, so that it links no client and no database.
type Registry struct {
	types    map[Section]map[string]*componentType
	storages map[string]OpenStorage
	backends map[string]MakeBackend
}

// OpenStorage opens the storage of one job, whose root is the URL's path joined
// with the job's name. It creates nothing before the first write.
type OpenStorage func(ctx context.Context, w stream.World, job string, url StorageURL) (checkpoint.Storage, error)

// StorageURL says where checkpoints are kept.
type StorageURL struct {
	Scheme string
	// Path is absolute for file:, empty for memory:.
	Path string
}

// String returns the URL.
func (u StorageURL) String() string { return u.Scheme + ":" + u.Path }

// MakeBackend returns what makes the state backend of an attempt.
type MakeBackend func(BackendSpec) func(pipeline.BackendEnv) (state.Backend, error)

// BackendSpec is what the file says about state.
type BackendSpec struct {
	// Dir is the job's own folder for local state.
	Dir string
	// Memory is the budget of the process, in bytes.
	Memory int64
	// Snapshot is incremental or full.
	Snapshot string
}

// componentType is a type word with what it takes and what makes it.
type componentType struct {
	section Section
	word    string
	doc     string
	spec    reflect.Type
	// build is nil for connections, which are checked by check.
	build func(c *Component, spec any) Parts
	check func(c *Component, spec any)
}

// NewRegistry returns a registry with the transforms of this package.
func NewRegistry() *Registry {
	r := &Registry{types: map[Section]map[string]*componentType{}, storages: map[string]OpenStorage{}, backends: map[string]MakeBackend{}}
	for _, s := range sections {
		r.types[s] = map[string]*componentType{}
	}
	registerTransforms(r)
	return r
}

// Register adds a component type under its word. S is the struct of its keys, with
// the tags that the table in fields.go lists; build makes the component from it,
// or reports problems. doc is one line for editors and the reference page.
func Register[S any](r *Registry, section Section, word, doc string, build func(c *Component, spec *S) Parts) {
	invariant.Check(section != Connections, "%s: a connection is registered with RegisterConnection", word)
	r.add(&componentType{section: section, word: word, doc: doc, spec: reflect.TypeFor[S](),
		build: func(c *Component, spec any) Parts { return build(c, spec.(*S)) }})
}

// RegisterConnection adds a connection type. check reports what is wrong with a
// connection as far as it can be seen without connecting; it may be nil.
func RegisterConnection[S any](r *Registry, word, doc string, check func(c *Component, spec *S)) {
	t := &componentType{section: Connections, word: word, doc: doc, spec: reflect.TypeFor[S]()}
	if check != nil {
		t.check = func(c *Component, spec any) { check(c, spec.(*S)) }
	}
	r.add(t)
}

func (r *Registry) add(t *componentType) {
	invariant.Check(r.types[t.section][t.word] == nil, "%s type %q is registered twice", t.section, t.word)
	common := groupOf(commonOf(t.section))
	for _, f := range groupOf(t.spec).fields {
		_, taken := common.get(f.name)
		invariant.Check(!taken, "%s type %q: every component has the key %q already", t.section, t.word, f.name)
	}
	r.types[t.section][t.word] = t
}

// Storage adds a scheme of checkpoint.storage.
func (r *Registry) Storage(scheme string, open OpenStorage) { r.storages[scheme] = open }

// Backend adds a word of state.backend.
func (r *Registry) Backend(word string, m MakeBackend) { r.backends[word] = m }

// words returns the type words of a section, sorted.
func (r *Registry) words(s Section) []string {
	var out []string
	for w := range r.types[s] {
		out = append(out, w)
	}
	slices.Sort(out)
	return out
}

// commonOf returns the keys that every component of a section has.
func commonOf(s Section) reflect.Type {
	switch s {
	case Connections:
		return reflect.TypeFor[connectionCommon]()
	case Sources:
		return reflect.TypeFor[sourceCommon]()
	case Sinks:
		return reflect.TypeFor[sinkCommon]()
	default:
		return reflect.TypeFor[common]()
	}
}

// connectionCommon are the keys of every connection.
type connectionCommon struct {
	Type string `yaml:"type" required:"true" doc:"what it connects to"`
}

// common are the keys of every transform.
type common struct {
	Type        string   `yaml:"type" required:"true" doc:"what the component does"`
	UID         string   `yaml:"uid" doc:"the name that state and transactions are kept under; default the component's name. It lets a component be renamed."`
	Inputs      []string `yaml:"inputs" required:"true" one:"true" doc:"the components whose output it takes, ROUTE.OUTPUT for one of a route"`
	Parallelism int      `yaml:"parallelism" default:"0" min:"0" max:"32768" doc:"its number of subtasks; 0 for the pipeline's"`
	OnError     string   `yaml:"on_error" default:"fail" oneof:"fail|skip|dead_letter" doc:"what becomes of a record it cannot process: fail ends the job, skip counts it and goes on, dead_letter also writes it to a sink"`
	DeadLetter  string   `yaml:"dead_letter" doc:"the sink of its dead letters; default the pipeline's"`
}

// sinkCommon are the keys of every sink. One that takes dead letters has no inputs.
type sinkCommon struct {
	Type        string   `yaml:"type" required:"true" doc:"what the component does"`
	UID         string   `yaml:"uid" doc:"the name that transactions are kept under; default the component's name. It lets a component be renamed."`
	Inputs      []string `yaml:"inputs" one:"true" doc:"the components whose output it takes, ROUTE.OUTPUT for one of a route; required, but for the sink of dead letters, which has none"`
	Parallelism int      `yaml:"parallelism" default:"0" min:"0" max:"32768" doc:"its number of subtasks; 0 for the pipeline's"`
	OnError     string   `yaml:"on_error" default:"fail" oneof:"fail|skip|dead_letter" doc:"what becomes of a record it cannot write: fail ends the job, skip counts it and goes on, dead_letter also writes it to another sink"`
	DeadLetter  string   `yaml:"dead_letter" doc:"the sink of its dead letters; default the pipeline's"`
}

// sourceCommon are the keys of every source.
type sourceCommon struct {
	Type        string   `yaml:"type" required:"true" doc:"what it reads from"`
	UID         string   `yaml:"uid" doc:"the name that positions are kept under; default the component's name. It lets a component be renamed."`
	Parallelism int      `yaml:"parallelism" default:"0" min:"0" max:"32768" doc:"its number of subtasks; 0 for the pipeline's"`
	OnError     string   `yaml:"on_error" default:"fail" oneof:"fail|skip|dead_letter" doc:"what becomes of a record that cannot be decoded: fail ends the job, skip counts it and goes on, dead_letter also writes it to a sink"`
	DeadLetter  string   `yaml:"dead_letter" doc:"the sink of its dead letters; default the pipeline's"`
	Decode      Decode   `yaml:"decode" doc:"how the bytes of a record's value are read"`
	_           struct{} `reserved:"event_time table"`
}

// Decode says how values are read.
type Decode struct {
	Format string `yaml:"format" word:"true" default:"json" oneof:"json|text|raw" doc:"json gives this.field, text gives this.value, raw gives only meta"`
	Strict bool   `yaml:"strict" default:"true" doc:"false accepts JSON that readers may understand differently: a name twice in an object, invalid UTF-8"`
}

// String returns the decoding in one word, as plans show it.
func (d Decode) String() string {
	if d.Format == "json" && !d.Strict {
		return "json, not strict"
	}
	return fmt.Sprint(d.Format)
}
