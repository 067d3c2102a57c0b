package pipeline

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"testing/synctest"

	"etl/checkpoint"
	"etl/stream"
)

// TestForgotten: everything is committed and confirmed when the outside goes back in time,
// all of it or one lane, to something older or to nothing. The next start declares the loss
// instead of going on over the hole, at any number of starts, and commits nothing before it
// does; somebody who knows may go on.
func TestForgotten(t *testing.T) {
	for name, lose := range map[string]func(lanes map[stream.TaskID]stream.CheckpointID){
		"everything": func(m map[stream.TaskID]stream.CheckpointID) { clear(m) },
		"one lane": func(m map[stream.TaskID]stream.CheckpointID) {
			for lane := range m {
				delete(m, lane)
				return
			}
		},
		"the last commits": func(m map[stream.TaskID]stream.CheckpointID) {
			for lane := range m {
				m[lane] = stream.NewCheckpointID(1, 1)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSimulation(t, 5)
				if err := s.start(false); err != nil {
					t.Fatal(err)
				}
				had, commits := maps.Clone(s.out.markers), s.out.commits
				lose(s.out.markers)
				for range 2 {
					if err := s.start(false); stream.CodeOf(err) != "sink.forgotten" || stream.ClassOf(err) != stream.DataLoss || !strings.Contains(err.Error(), "out/") {
						t.Fatalf("the start says %v", err)
					}
				}
				if s.out.commits != commits {
					t.Error("something was committed over the hole")
				}
				h, err := checkpoint.ReadHistory(t.Context(), s.store)
				if err != nil {
					t.Fatal(err)
				}
				s.restore = RestoreOptions{From: h.Newest().ID, AcceptDuplicates: true}
				if err := s.start(false); err != nil {
					t.Errorf("with the loss accepted: %v", err)
				}
				s.restore, s.out.markers = RestoreOptions{}, had
				if err := s.start(false); err != nil && !errors.Is(err, errCrash) {
					t.Errorf("with everything back: %v", err)
				}
			})
		})
	}
}

// TestForgottenNobodyCommits: a job that went on without transactions has nobody to ask.
func TestForgottenNobodyCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSimulation(t, 5)
		if err := s.start(false); err != nil {
			t.Fatal(err)
		}
		o := s.options()
		o.Policy.Mode = checkpoint.AtLeastOnce
		j, err := NewJob(s.graph(), o)
		if err != nil {
			t.Fatal(err)
		}
		if err := j.Run(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
