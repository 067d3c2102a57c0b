//go:build !linux

package file

// RenameNew is two steps where the system has no single one.
func (r rooted) RenameNew(oldName, newName string) error {
	r.two.Store(true)
	return linkAndRemove(r, oldName, newName)
}
