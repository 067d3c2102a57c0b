package sqltxn

// KeepReplaced makes an epoch keep the rows that a later one of their key replaces. It is
// for sinks that go on without bad rows: a row that only the server can refuse has taken
// the place of one before it, which must be written then. It costs the memory that
// reducing saves, and is called before the first row.
func (r *Rows) KeepReplaced() { r.past = true }

// Restore makes the rows that were replaced count again, each in its place: the server has
// refused a row, and what it stood for is to be looked at one by one. It reports whether
// that changed anything; positions of bad rows found before mean nothing then.
func (r *Rows) Restore() bool {
	if !r.keyed || !r.past || r.full {
		return false
	}
	r.full = true
	return true
}

// seen collects the keys of one statement: it may touch a row only once.
type seen map[string]bool

// again reports whether the key of a row came before.
func (s seen) again(f frame, key int) bool {
	t := f.tuple()[2:]
	k := string(t[:fieldsEnd(t, key)])
	if s[k] {
		return true
	}
	s[k] = true
	return false
}
