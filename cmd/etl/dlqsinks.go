package main

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"etl/config"
	configfile "etl/config/file"
	"etl/config/http"
	"etl/config/kafka"
	"etl/config/postgres"
	"etl/deadletter"
	"etl/sink/twophase/file"
	"etl/stream"
)

// letterSinks returns the sinks of dead letters that can be read, or the one with the
// name. The others, and why they cannot, are in unread.
func letterSinks(job *config.Job, name string) (out []deadletter.Letters, unread map[string]error, err error) {
	unread = map[string]error{}
	var first error
	for _, c := range job.Components {
		if len(c.LettersOf()) == 0 || name != "" && c.Name != name {
			continue
		}
		l, err := lettersOf(c)
		if err == nil {
			out = append(out, l)
			continue
		}
		unread[c.Name], first = err, cmp.Or(first, err)
	}
	switch {
	case len(out) > 0:
		return out, unread, nil
	case first != nil:
		return nil, unread, first
	case name != "":
		return nil, nil, stream.Errorf(stream.BadConfig, "dlq.no_sink", "read dead letters", name, "there is no sink of dead letters with this name")
	}
	return nil, nil, stream.Errorf(stream.BadConfig, "dlq.no_sink", "read dead letters", job.Spec.Name, "no component of the pipeline has on_error: dead_letter").WithFix("see docs/dead-letters.md")
}

// lettersOf returns the letters of a sink, or says why they cannot be read back.
func lettersOf(c *config.Component) (deadletter.Letters, error) {
	if l, ok := kafka.LettersOf(c); ok {
		if !l.Raw {
			return nil, fieldsOnly(c)
		}
		return deadletter.Kafka{From: l}, nil
	}
	if l, ok := postgres.LettersOf(c); ok {
		return deadletter.Table{From: l}, reasons(c, "the table", "columns", &l.Fields)
	}
	l, ok := configfile.LettersOf(c)
	switch {
	case !ok:
		return nil, notReadable(c)
	case l.Format != file.JSON:
		return nil, stream.Errorf(stream.BadConfig, "dlq.not_readable", "read dead letters", c.Name, "part files of format %s are not read back", l.Format).
			WithFix("read the files below %s; to list and replay letters here, write format: json", l.Path)
	case l.AsIs:
		return deadletter.Files{From: l}, nil
	}
	return deadletter.Files{From: l}, reasons(c, "a line", "map", &l.Fields)
}

// reasons returns an error when a sink does not say which record a letter is about, and
// what happened to it.
func reasons(c *config.Component, what, key string, fields *config.LetterFields) error {
	lack := fields.Lack(config.LetterReasons)
	if len(lack) == 0 {
		return nil
	}
	return stream.Errorf(stream.BadConfig, "dlq.fields", "read dead letters", c.Name, "%s holds no %s: letters cannot be told from it", what, strings.Join(lack, ", ")).
		WithFix("write every field as it is, under any name: %s: { %s: this.%s, ... }; docs/dead-letters.md lists them", key, lack[0], lack[0])
}

func fieldsOnly(c *config.Component) error {
	return stream.Errorf(stream.BadConfig, "dlq.fields", "read dead letters", c.Name, "the sink writes fields of dead letters, not the records").
		WithFix("read its topic; to list and replay them here, remove value, map and encode from the sink")
}

// notReadable says where the letters of a sink are that nothing reads back, and what
// would have them listed and replayed here.
func notReadable(c *config.Component) error {
	where := "look where the sink writes them"
	if _, ok := c.Spec().(*http.Sink); ok {
		where = "ask the endpoint that took them"
	}
	return stream.Errorf(stream.BadConfig, "dlq.not_readable", "read dead letters", c.Name, "what a sink of type %s has written is not read back", c.Type).
		WithFix("%s; to list and replay letters here, use a sink of type kafka, postgres or file", where)
}

// several asks for one of several sinks.
func several(sinks []deadletter.Letters) error {
	var names []string
	for _, s := range sinks {
		names = append(names, s.Sink())
	}
	return stream.Errorf(stream.BadConfig, "dlq.several_sinks", "read dead letters", strings.Join(names, ", "), "there are several sinks of dead letters").WithFix("name one with --sink")
}

// letterSink returns the one sink whose records are asked for, and the names of those that
// nothing reads back: where there are such, it says which one it is.
func (a *app) letterSink(job *config.Job, name string) (from deadletter.Letters, leftOut []string, err error) {
	sinks, unread, err := letterSinks(job, name)
	switch {
	case err != nil:
		return nil, nil, err
	case len(sinks) > 1:
		return nil, nil, several(sinks)
	}
	if len(unread) > 0 {
		a.say("read is sink %s, %s\n", sinks[0].Sink(), sinks[0].Place())
		a.sayLeftOut(unread)
	}
	return sinks[0], slices.Sorted(maps.Keys(unread)), sinks[0].Records()
}

// sayLeftOut says which sinks are not read, and where to look.
func (a *app) sayLeftOut(unread map[string]error) {
	for _, name := range slices.Sorted(maps.Keys(unread)) {
		a.say("sink %s is left out: %v\n", name, unread[name])
	}
}
