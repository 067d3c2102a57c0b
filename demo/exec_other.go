//go:build !linux

package demo

import "syscall"

// ownGroup puts a child in a process group of its own.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
