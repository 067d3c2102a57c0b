package keyed

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// advise asks for huge pages: random access to a large state is bound by the
// translation of addresses as much as by memory.
func advise(p unsafe.Pointer, n int) {
	_ = unix.Madvise(unsafe.Slice((*byte)(p), n), unix.MADV_HUGEPAGE)
}
