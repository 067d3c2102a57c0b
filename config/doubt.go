package config

import "slices"

// What only follows from another mistake is not reported: whoever mends the cause sees
// what is left. A key is in doubt when its value could not be read, when it seems to be
// there under a misspelt name, or when it names something that is not there. Then
//
//   - nothing else is said of that key, nor of those below it or above it in its component;
//   - nothing is said of what it means for other keys ([Component.Known]);
//   - what its component gives to others is not known: any field may be there;
//   - what is missing elsewhere, and may be what was meant, is not missed.

// doubt puts a key in doubt.
func (b *builder) doubt(path string) { b.unusable = append(b.unusable, path) }

// unreadable returns the keys that are in doubt once all are decoded.
func (b *builder) unreadable() []string {
	out := slices.Clone(b.doubted)
	for _, p := range b.problems {
		if p.Severity == Error && p.Path != "" && p.Code != "config.unknown_key" && p.Code != "config.not_yet" {
			out = append(out, p.Path)
		}
	}
	return out
}

// doubts reports whether one of the keys is in doubt, or one above or below it.
func (b *builder) doubts(paths ...string) bool {
	return slices.ContainsFunc(b.unusable, func(p string) bool {
		return slices.ContainsFunc(paths, func(path string) bool { return leads(p, path) || leads(path, p) })
	})
}

// Known reports whether keys of the component, which are there or may be left out, are
// not in doubt. A factory asks before it reports what one key means for another. The key
// inputs is in doubt as well when one of them is not what it was meant to be, and every
// key is when the mode of checkpoints is.
func (c *Component) Known(paths ...string) bool {
	return !c.build.doubts("checkpoint.mode") && !slices.ContainsFunc(paths, func(path string) bool {
		return c.build.doubts(c.path(path)) || path == "inputs" && slices.ContainsFunc(c.ancestors(), (*Component).wrong)
	})
}

// refused reports whether an error was reported of a key, or of one below it.
func (c *Component) refused(path string) bool {
	return slices.ContainsFunc(c.build.problems, func(p Problem) bool { return p.Severity == Error && leads(c.path(path), p.Path) })
}

// wrong reports whether the component is not what it was meant to be.
func (c *Component) wrong() bool { return c.failed || c.build.doubts(c.path("")) }

// whole reports whether all of some sections could be read.
func (b *builder) whole(sections ...Section) bool {
	return !slices.ContainsFunc(sections, func(s Section) bool { return slices.Contains(b.unusable, string(s)) })
}

// linked reports whether it is known what takes from what.
func (b *builder) linked() bool {
	return b.whole(Sources, Transforms, Sinks) &&
		!slices.ContainsFunc(b.components, func(c *Component) bool { return b.doubts(c.path("inputs")) })
}

// addressed reports whether it is known where dead letters go.
func (b *builder) addressed() bool {
	return b.whole(Sources, Transforms, Sinks) && !b.doubts("dead_letter") &&
		!slices.ContainsFunc(b.components, func(c *Component) bool { return b.doubts(c.path("on_error"), c.path("dead_letter")) })
}
