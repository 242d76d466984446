package pgtest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// childAttributes make the child run as the owner and die with us.
func childAttributes(as owner) *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if as.other {
		attributes.Credential = &syscall.Credential{Uid: uint32(as.uid), Gid: uint32(as.gid)}
	}
	return attributes
}

// killChildren kills the server's own children, each of which leads a session, so that no signal to a group finds them.
// Left alone they would finish what they are at and keep the memory a restarted server waits for. The server is stopped
// first, lest it starts others or tidies up after those that died.
func killChildren(p *process) {
	_ = p.signal(syscall.SIGSTOP)
	list, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", p.pid(), p.pid()))
	if err != nil {
		return // a kernel without this file; the children end by themselves soon after the server
	}
	for pid := range strings.FieldsSeq(string(list)) {
		if pid, err := strconv.Atoi(pid); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
