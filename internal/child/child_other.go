//go:build !linux

package child

import "syscall"

// Only Linux kills a child with its parent; elsewhere a killed test leaves its servers behind.
func dieWithParent(*syscall.SysProcAttr) {}

// Elsewhere there is no portable way to ask whether a child has stopped; it does within a moment.
func (p *Process) awaitStopped() error { return nil }
