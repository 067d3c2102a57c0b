package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
)

// Command is a process to start: this program with other arguments.
type Command struct {
	Args []string
	// Env is added to the environment.
	Env []string
	// Out takes what it writes to standard output and standard error.
	Out io.Writer
}

// Exit says how a process ended.
type Exit struct {
	Code int
	// Killed says that it ended by SIGKILL.
	Killed bool
}

// Process is a process that was started.
type Process interface {
	// Wait returns when it has ended and all it wrote was taken.
	Wait() Exit
	// Kill ends it by SIGKILL. It may be called at any time, also after the end.
	Kill()
}

// Starter starts processes; [Executable] is the real one.
type Starter interface {
	Start(ctx context.Context, c Command) (Process, error)
}

// story collects what the log of a worker tells of its start.
type story struct {
	mu       sync.Mutex
	rest     []byte
	tail     []string // its last lines, for the error when it fails
	restored func(checkpoint string, committed int)
	commits  int
}

const tailLines = 12

// Write takes a piece of the log.
func (s *story) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest = append(s.rest, p...)
	for {
		line, rest, ok := bytes.Cut(s.rest, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		s.line(string(line))
		s.rest = append([]byte(nil), rest...)
	}
}

// line takes a line of the log.
func (s *story) line(text string) {
	if s.tail = append(s.tail, text); len(s.tail) > tailLines {
		s.tail = s.tail[1:]
	}
	var e struct {
		Message  string `json:"msg"`
		Restored string `json:"restored"`
	}
	if json.Unmarshal([]byte(text), &e) != nil {
		return
	}
	switch e.Message {
	case "transaction of an earlier attempt committed":
		s.commits++
	case "running":
		s.restored(e.Restored, s.commits)
	}
}

// last returns the last lines of the log.
func (s *story) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(append(s.tail, string(s.rest)), "\n")
}
