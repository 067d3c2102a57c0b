package file

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"slices"

	"etl/stream"
)

// intent is the name of an epoch's intent.
const intent = "intent"

// exists reports whether there is a file of the name.
func exists(f stream.FS, name string) (bool, error) {
	_, err := f.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// list returns the names in a directory, none when there is no such directory.
func list(f stream.FS, dir string) ([]string, error) {
	names, err := f.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return names, err
}

// epochsIn returns the directories of epochs in the home of a lineage.
func epochsIn(f stream.FS, home string) (out []dirName, err error) {
	names, err := list(f, home)
	for _, name := range names {
		if d, ok := parseDir(name); ok {
			out = append(out, d)
		}
	}
	return out, err
}

// committed returns the epochs of a lane that have an intent, the newest first.
func committed(f stream.FS, home string, subtask int) (out []dirName, err error) {
	all, err := epochsIn(f, home)
	if err != nil {
		return nil, err
	}
	for _, d := range all {
		if d.prefix != "" || d.subtask != subtask {
			continue
		}
		switch ok, err := exists(f, path.Join(home, d.String(), intent)); {
		case err != nil:
			return nil, err
		case ok:
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b dirName) int { return cmp.Compare(b.checkpoint(), a.checkpoint()) })
	return out, nil
}

// removeDir removes a directory and the files in it. Others may be doing the same.
func removeDir(f stream.FS, dir string) error {
	names, err := list(f, dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := f.Remove(path.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := f.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
