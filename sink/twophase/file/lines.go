package file

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"etl/stream"
)

// numbers is what stands in a part's name behind job and sink: see partName.
var numbers = regexp.MustCompile(`^[0-9a-f]{8}-\d{5,}-\d{4,}-\d{8,}-\d{4,}((?:\.jsonl|\.csv)(?:\.gz|\.zst)?|\.parquet)$`)

// partExt returns the extension of a part of a job's sink; ok is false for the name of
// anything else.
func partExt(job string, uid stream.UID, name string) (ext string, ok bool) {
	rest, ok := strings.CutPrefix(name, escape(job)+"."+escape(string(uid))+".")
	m := numbers.FindStringSubmatch(rest)
	if !ok || m == nil {
		return "", false
	}
	return m[1], true
}

// Line is a row of a part file of format json that readers see.
type Line struct {
	// Name is that of the file without its directory: it never changes, wherever below
	// the sink's path the file is moved to.
	Name string
	// File counts the files that were read before, N the lines before it in its own.
	File, N int64
	// Doc is good until the next line is asked for.
	Doc []byte
}

// Lines gives every row of a job's sink that is committed to f: those of the files under
// their final names, in the order of names, whatever their directory. What is hidden,
// open or prepared, is not looked at. Symbolic links are not followed. A file that is
// taken away meanwhile is left out, and of two under one name one is read: parts are
// never written twice.
func Lines(dir, job string, uid stream.UID, f func(Line) error) error {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return stream.Errorf(stream.Environment, "file.path", "read files", dir, "there is no such directory").WithFix("start the job once, or mount the disk")
	}
	if err != nil {
		return environment("read files", dir, err)
	}
	defer root.Close()
	found, err := partsBelow(root.FS(), job, uid)
	if err != nil {
		return environment("read files", dir, err)
	}
	last, n := "", int64(0)
	for _, at := range found {
		if path.Base(at) == last {
			continue
		}
		last = path.Base(at)
		h, err := root.Open(at)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return environment("read", path.Join(dir, at), err)
		}
		err = errors.Join(linesOf(h, at, job, uid, n, f), h.Close())
		if n++; err != nil {
			return err
		}
	}
	return nil
}

// partsBelow returns the parts of a job's sink, in the order of their names.
func partsBelow(below fs.FS, job string, uid stream.UID) (found []string, err error) {
	err = fs.WalkDir(below, ".", func(at string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // taken away meanwhile
			return nil
		case err != nil:
			return err
		case d.IsDir() && at != "." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		if _, ok := partExt(job, uid, d.Name()); ok {
			found = append(found, at)
		}
		return nil
	})
	slices.SortFunc(found, func(a, b string) int { return cmp.Or(cmp.Compare(path.Base(a), path.Base(b)), cmp.Compare(a, b)) })
	return found, err
}

// linesOf reads a part.
func linesOf(h io.Reader, at, job string, uid stream.UID, file int64, f func(Line) error) error {
	ext, _ := partExt(job, uid, path.Base(at))
	r, end, err := unpacked(h, ext)
	if err != nil {
		return damaged(at, err)
	}
	defer end()
	b := bufio.NewReaderSize(r, bufferSize)
	for n := int64(0); ; n++ {
		line, err := b.ReadBytes('\n')
		switch {
		case err == io.EOF && len(line) == 0:
			return nil
		case err == io.EOF:
			return damaged(at, errors.New("its last line has no end"))
		case err != nil:
			return damaged(at, err)
		}
		if err := f(Line{Name: path.Base(at), File: file, N: n, Doc: line[:len(line)-1]}); err != nil {
			return err
		}
	}
}

// unpacked returns the text of a file, and what ends the reading.
func unpacked(h io.Reader, ext string) (io.Reader, func(), error) {
	switch ext {
	case ".jsonl":
		return h, func() {}, nil
	case ".jsonl.gz":
		z, err := gzip.NewReader(h)
		return z, func() {}, err
	case ".jsonl.zst":
		z, err := zstd.NewReader(h, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, nil, err
		}
		return z, z.Close, nil
	}
	return nil, nil, errors.New("lines are read of .jsonl, .jsonl.gz and .jsonl.zst only, and this is another format")
}

// damaged is the error of a file that cannot be read as it was written.
func damaged(at string, err error) error {
	return stream.Errorf(stream.Environment, "file.unreadable", "read", at, "%w", err).WithFix("take the file out of the directory, or bring it back from a backup")
}
