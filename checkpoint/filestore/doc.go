// Package filestore keeps the checkpoints of one job in a directory, behind a
// stream.FS. Objects are files of the same names; everything the store keeps for
// itself begins with a dot, which no object's name does.
//
//	<dir>/log/000000000017       an entry of the contested log
//	<dir>/objects/...            segments, bases, operator state
//	<dir>/history/...            journals of notes
//	<dir>/.lock                  the advisory lock, holding a Holder as JSON
//	<dir>/.../.tmp-...           an object on its way
//
// # Durability
//
// An object is written under a temporary name in the directory it will lie in,
// synced, given its name by link(2), stripped of the temporary one, and the
// directory is synced:
//
//	create .tmp | write | sync .tmp | link .tmp -> name | remove .tmp | syncdir
//
// link(2) never replaces, so exactly one of several writers gets a name (I4), and
// what has the name is complete, whenever the power goes. Rename would replace,
// and exclusive creation alone would show half an object. File systems on which
// link or the sync of a directory fails are refused before anything is written.
//
// A failed sync is fatal (ErrNotDurable) and is never repeated: after it the
// kernel may report success for bytes it has dropped (I16).
//
// # Access
//
// Directories are made 0700 and files 0600; a root that others may write to, or
// that another user owns, is refused: who can write there decides what this
// process commits.
package filestore
