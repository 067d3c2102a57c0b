//go:build !linux

package testservice

import (
	"errors"
	"syscall"
)

// Elsewhere there is no death signal and no /proc: a killed test program leaves
// its servers behind, and signals reach the server's first process only.

func setDeathSignal(*syscall.SysProcAttr) {}

func running(pid int) bool { return exists(pid) }

func exists(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func descendants(pid int) []int { return []int{pid} }
