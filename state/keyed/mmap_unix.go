//go:build unix

package keyed

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapping returns n bytes of zeroed memory outside the Go heap, aligned to
// hugePage so that the kernel can use huge pages, or nil when the system gives
// none. n is a multiple of hugePage. A collector that never sees gigabytes of
// entries is what keeps its pauses independent of the size of state.
func mapping(n int) unsafe.Pointer {
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(n+hugePage), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil
	}
	head := int(-uintptr(p) & (hugePage - 1))
	if head > 0 {
		unmap(p, head)
	}
	p = unsafe.Add(p, head)
	if tail := hugePage - head; tail > 0 {
		unmap(unsafe.Add(p, n), tail)
	}
	advise(p, n)
	return p
}

func unmap(p unsafe.Pointer, n int) { _ = unix.MunmapPtr(p, uintptr(n)) }
