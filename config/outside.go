package config

import (
	"io/fs"
	"os"
)

// Outside is what a file may refer to. A nil field means the process's own; tests
// and the formatter of examples give theirs.
type Outside struct {
	LookupEnv func(name string) (string, bool)
	ReadFile  func(name string) ([]byte, error)
	Stat      func(name string) (fs.FileInfo, error)
	// Device returns a number for the disk that holds a path, or would once it is
	// created; false when that is not known.
	Device func(path string) (uint64, bool)
}

func (o Outside) variable(name string) (string, bool) {
	if o.LookupEnv == nil {
		return os.LookupEnv(name)
	}
	v, ok := o.LookupEnv(name)
	if !ok {
		v = ""
	}
	return v, ok
}

func (o Outside) read(name string) ([]byte, error) {
	if o.ReadFile == nil {
		return os.ReadFile(name)
	}
	return o.ReadFile(name)
}

func (o Outside) stat(name string) (fs.FileInfo, error) {
	if o.Stat == nil {
		return os.Stat(name)
	}
	return o.Stat(name)
}

func (o Outside) device(path string) (uint64, bool) {
	if o.Device == nil {
		return device(path)
	}
	return o.Device(path)
}
