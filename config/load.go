package config

import (
	"etl/checkpoint"
	"etl/pipeline"
)

// Loader reads pipeline files. run, lint and plan use the same one: what one of
// them accepts, all accept.
type Loader struct {
	// Registry holds the component types; nil: those of NewRegistry.
	Registry *Registry
	Outside  Outside
	// DataDir is the folder for state and checkpoints whose place the file does
	// not give. It must be absolute.
	DataDir string
}

// Job is a pipeline file that may be run.
type Job struct {
	File string
	// Spec is the file without its components, with defaults filled in.
	Spec   *Spec
	Graph  *pipeline.Graph
	Policy checkpoint.Policy
	// Storage and State are where checkpoints and local state are kept.
	Storage StorageURL
	State   BackendSpec
	// Components are in the order of the file.
	Components []*Component
	// ConfigHash changes when the effective configuration changes; secrets are not
	// part of it.
	ConfigHash string

	registry *Registry
	root     *node
}

// Load reads a pipeline file. The job is nil when there are errors; warnings come
// with or without one. file is the name to use in messages.
func (l *Loader) Load(file string, data []byte) (*Job, Problems) {
	d, ok := newDocument(file, data)
	if !ok {
		return nil, d.problems
	}
	root := d.parse()
	if root == nil {
		return nil, d.all()
	}
	(&interpolator{d, l.Outside}).walk(root)
	b := &builder{document: d, root: root, loader: l, registry: l.Registry, connections: map[string]*Component{}, named: map[string]*Component{}}
	if b.registry == nil {
		b.registry = NewRegistry()
	}
	job := b.job()
	ps := d.all()
	if ps.Failed() {
		return nil, ps
	}
	return job, ps
}

// builder makes a job from the tree. Every step reports its problems and goes on.
type builder struct {
	*document
	root     *node
	loader   *Loader
	registry *Registry
	spec     Spec
	info     JobInfo
	result   *Job

	connections map[string]*Component
	named       map[string]*Component // sources and transforms, which have output
	components  []*Component          // sources, transforms, sinks, in the order of the file
	unusable    []string              // paths of keys that are in doubt
}

func (b *builder) job() *Job {
	(&decoder{b.document}).into(b.root, &b.spec, string(Connections), string(Sources), string(Transforms), string(Sinks))
	policy := b.spec.Checkpoint.policy()
	b.info = JobInfo{Name: b.spec.Name, Policy: policy, Parallelism: b.spec.Parallelism, MaxParallelism: b.spec.MaxParallelism}
	b.result = &Job{File: b.file, Spec: &b.spec, Policy: policy, registry: b.registry, root: b.root}
	for _, s := range sections {
		b.section(s)
	}
	b.unusable = b.unreadable()
	b.link()
	for _, c := range b.ordered() {
		c.make()
	}
	b.checkOutputs()
	b.offerInputs()
	b.result.Components = b.components
	b.result.Graph = b.graph()
	b.checkVersion()
	b.checkGraph()
	b.checkPolicy()
	b.checkPlaces()
	b.checkComponents()
	if !b.problems.Failed() {
		b.result.ConfigHash = b.result.hash()
	}
	return b.result
}

// build returns what the job was made with.
func (j *Job) build() *builder { return j.Components[0].build }
