package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
)

// maxSecret is the largest secret file that is read, in bytes.
const maxSecret = 64 << 10

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// interpolator puts variables and files into the text of leaves. It works on the
// parsed file, so that no value can add a key or change the structure.
type interpolator struct {
	*document
	outside Outside
}

// walk visits all leaves below n. A leaf that an alias shares is visited once for
// each place: it is another node each time.
func (in *interpolator) walk(n *node) {
	for i := range n.entries {
		in.walk(n.entries[i].value)
	}
	for _, item := range n.items {
		in.walk(item)
	}
	if n.kind == textNode && !n.inserted && strings.Contains(n.text, "${") {
		n.inserted = true
		in.leaf(n)
	}
}

// leaf replaces every ${...} of a text, and $${ by ${.
func (in *interpolator) leaf(n *node) {
	var b strings.Builder
	rest := n.source
	for {
		i := strings.Index(rest, "${")
		if i < 0 {
			break
		}
		if i > 0 && rest[i-1] == '$' {
			b.WriteString(rest[:i-1] + "${")
			rest = rest[i+2:]
			continue
		}
		end := strings.IndexByte(rest[i:], '}')
		if end < 0 {
			in.bad(n, "variable", "${ without }", "close it, or write $${ for a ${ that stands for itself")
			return
		}
		b.WriteString(rest[:i])
		value, ok := in.value(n, rest[i+2:i+end])
		if !ok {
			return
		}
		b.WriteString(value)
		rest = rest[i+end+1:]
	}
	n.text = b.String() + rest
}

func (in *interpolator) bad(n *node, code, message, fix string) {
	n.broken = true
	in.add(n.pos, n.path, "config."+code, message, fix)
}

// value returns what the inside of ${...} stands for.
func (in *interpolator) value(n *node, inside string) (string, bool) {
	if file, ok := strings.CutPrefix(inside, "file:"); ok {
		n.secret = true
		return in.file(n, file)
	}
	name, form, text := inside, "", ""
	if i := strings.IndexByte(inside, ':'); i >= 0 && i+1 < len(inside) {
		name, form, text = inside[:i], inside[i:i+2], inside[i+2:]
	}
	if strings.Contains(text, "${") {
		in.bad(n, "variable", "a variable inside the default of another one", "use one variable, or set the default where etl is started")
		return "", false
	}
	if !variableName.MatchString(name) || form != "" && form != ":-" && form != ":?" {
		in.bad(n, "variable", quote("${"+inside+"}")+" is not a variable", "the forms are ${NAME}, ${NAME:-default}, ${NAME:?message} and ${file:/path}; write $${ for a ${ that stands for itself")
		return "", false
	}
	v, set := in.outside.variable(name)
	switch {
	case form == ":-" && v == "":
		return text, true
	case form == ":?" && v == "":
		is := "not set"
		if set {
			is = "empty"
		}
		in.bad(n, "variable_unset", fmt.Sprintf("the environment variable %s is %s: %s", name, is, text), "set it before starting")
		return "", false
	case !set:
		in.bad(n, "variable_unset", fmt.Sprintf("the environment variable %s is not set", name), "set it, or give a default: ${"+name+":-default}")
		return "", false
	}
	return v, true
}

// file reads a secret. Nobody but the owner may be able to.
func (in *interpolator) file(n *node, name string) (string, bool) {
	refuse := func(why, fix string) (string, bool) {
		in.bad(n, "secret_file", fmt.Sprintf("the secret file %s %s", quote(name), why), fix)
		return "", false
	}
	if !filepath.IsAbs(name) || strings.ContainsRune(name, 0) {
		return refuse("has no absolute path", "write ${file:/path/to/secret}")
	}
	info, err := in.outside.stat(name)
	switch {
	case err != nil:
		return refuse(reason(err), "create it, readable by its owner only")
	case !info.Mode().IsRegular():
		return refuse("is not a regular file", "")
	case info.Mode().Perm()&0o077 != 0:
		return refuse(fmt.Sprintf("can be read by others (mode %04o)", info.Mode().Perm()), "chmod 0400 it; in Kubernetes set defaultMode: 0400")
	case info.Size() > maxSecret:
		return refuse(fmt.Sprintf("has %d bytes, more than %d", info.Size(), maxSecret), "is this the secret?")
	}
	b, err := in.outside.read(name)
	if err != nil {
		return refuse(reason(err), "let the user that runs etl read it")
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
	if text == "" {
		return refuse("is empty", "write the secret into it")
	}
	return text, true
}

// reason is an error of the file system without the name that is said already.
func reason(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "does not exist"
	case errors.Is(err, fs.ErrPermission):
		return "may not be read"
	}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return "cannot be read: " + err.Error()
}
