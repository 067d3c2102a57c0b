//go:build unix && !linux

package keyed

import "unsafe"

func advise(unsafe.Pointer, int) {}
