//go:build !linux

package pgtest

import "syscall"

// Only Linux kills a child with its parent; elsewhere a killed test leaves its servers behind.
func childAttributes(as owner) *syscall.SysProcAttr {
	if !as.other {
		return nil
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(as.uid), Gid: uint32(as.gid)}}
}

// Elsewhere the server's children end by themselves soon after it.
func killChildren(*process) {}
