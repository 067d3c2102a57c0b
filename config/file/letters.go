package file

import (
	"etl/config"
	"etl/sink/twophase/file"
	"etl/stream"
)

// Letters is a sink of dead letters that writes files.
type Letters struct {
	// Sink is its name, Job and UID are in the names of its files.
	Sink   string
	Job    string
	UID    stream.UID
	Path   string
	Format file.Format
	// AsIs says that each line is the object of a letter; otherwise Fields says which
	// members of a line hold its fields.
	AsIs   bool
	Fields config.LetterFields
}

// LettersOf returns what a sink of dead letters writes; ok is false when c is none that
// writes files.
func LettersOf(c *config.Component) (l Letters, ok bool) {
	s, ok := c.Spec().(*Sink)
	if !ok || len(c.LettersOf()) == 0 {
		return l, false
	}
	l = Letters{Sink: c.Name, Job: c.Job.Name, UID: c.UID, Path: s.Path, Format: file.Format(s.Format), Fields: config.LetterFieldsOf(s.Map)}
	l.AsIs = len(s.Map) == 0 && (s.Value == "" || s.Value == "this")
	return l, true
}
