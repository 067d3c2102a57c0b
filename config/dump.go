package config

import (
	"crypto/sha256"
	"encoding/hex"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"

	"etl/internal/invariant"
)

// Effective returns the configuration as it is used: defaults and variables put
// in, secrets as "***". It is a pipeline file again.
func (j *Job) Effective() []byte {
	s := *j.Spec
	pause := Duration(j.Policy.MinPause)
	s.Checkpoint.MinPause, s.Checkpoint.Storage, s.State.Dir = &pause, j.Storage.String(), strings.TrimSuffix(j.State.Dir, "/"+s.Name)
	return j.dump(s)
}

// EffectiveMap returns Effective for JSON.
func (j *Job) EffectiveMap() map[string]any {
	var m map[string]any
	err := yaml.Unmarshal(j.Effective(), &m)
	invariant.Check(err == nil, "effective configuration: %v", err)
	return m
}

// hash identifies the effective configuration. Secrets are not in it: a hash of a
// short password, kept with every checkpoint, would give it away.
func (j *Job) hash() string {
	sum := sha256.Sum256(j.dump(*j.Spec))
	return hex.EncodeToString(sum[:16])
}

func (j *Job) dump(s Spec) []byte {
	out := dumpGroup(reflect.ValueOf(s))
	for _, section := range sections {
		var entries yaml.MapSlice
		for _, c := range j.all() {
			if c.Section == section {
				entries = append(entries, yaml.MapItem{Key: c.Name, Value: c.dump()})
			}
		}
		if len(entries) > 0 {
			out = append(out, yaml.MapItem{Key: string(section), Value: entries})
		}
	}
	b, err := yaml.MarshalWithOptions(out, yaml.IndentSequence(true))
	invariant.Check(err == nil, "marshal configuration: %v", err)
	return b
}

// all returns the connections, then the other components.
func (j *Job) all() []*Component {
	var out []*Component
	if n := j.root.get(string(Connections)); n != nil && len(j.Components) > 0 {
		for _, e := range n.entries {
			out = append(out, j.build().connections[e.name])
		}
	}
	return append(out, j.Components...)
}

// dump returns the keys of a component, the shared ones first.
func (c *Component) dump() yaml.MapSlice {
	out := yaml.MapSlice{{Key: "type", Value: c.Type}}
	switch c.Section {
	case Sources:
		shared := sourceCommon{UID: c.common.UID, Parallelism: c.common.Parallelism, OnError: c.common.OnError, Decode: c.decode}
		out = append(out, dumpGroup(reflect.ValueOf(shared))...)
	case Transforms, Sinks:
		shared := c.common
		shared.Type = ""
		out = append(out, dumpGroup(reflect.ValueOf(shared))...)
	}
	return append(out, dumpGroup(reflect.ValueOf(c.spec).Elem())...)
}

// dumpGroup returns the keys of a struct that have a value.
func dumpGroup(v reflect.Value) yaml.MapSlice {
	out := yaml.MapSlice{}
	for _, f := range groupOf(v.Type()).fields {
		field := v.Field(f.index)
		if field.IsZero() && (f.def == "" || f.def == "0") {
			continue
		}
		out = append(out, yaml.MapItem{Key: f.name, Value: dumpValue(field)})
	}
	return out
}

func dumpValue(v reflect.Value) any {
	switch x := v.Interface().(type) {
	case Duration:
		return x.String()
	case Size:
		return x.String()
	case Secret:
		return x.String()
	}
	if v.Type().Implements(orderedType) {
		out := yaml.MapSlice{}
		for i := range v.Len() {
			out = append(out, yaml.MapItem{Key: v.Index(i).Field(0).String(), Value: dumpValue(v.Index(i).Field(1))})
		}
		return out
	}
	switch v.Kind() {
	case reflect.Pointer:
		return dumpValue(v.Elem())
	case reflect.Struct:
		return dumpGroup(v)
	case reflect.Slice:
		out := []any{}
		for i := range v.Len() {
			out = append(out, dumpValue(v.Index(i)))
		}
		return out
	case reflect.String:
		return strings.ReplaceAll(v.String(), "${", "$${")
	}
	return v.Interface()
}
