//go:build !unix

package keyed

import "unsafe"

func mapping(int) unsafe.Pointer { return nil }

func unmap(unsafe.Pointer, int) {}
