//go:build !linux

package child

import "syscall"

// Only Linux kills a child with its parent. On other systems a killed test leaves its servers running.
func dieWithParent(*syscall.SysProcAttr) {}

// Other systems have no portable way to ask whether a child has stopped; it stops within a moment.
func (p *Process) awaitStopped() error { return nil }
