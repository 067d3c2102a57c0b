//go:build !synctests

package simtest

const virtualMutexes = false
