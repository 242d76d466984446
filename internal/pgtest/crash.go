package pgtest

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/penstock-io/penstock/internal/child"
)

// crash kills a server and its children, as a crash of the machine would, and returns when all are gone.
//
// Each child leads its own session, so a signal to the process group does not reach them. Left alone they
// would finish their work and keep the memory that a restarted server waits for. crash stops the server
// first, so that it neither starts other children nor cleans up after dead ones. It waits for the children,
// because their last writes to the data directory could interfere with its removal.
func crash(p *child.Process) {
	var children []int
	if !p.Exited() {
		_ = p.Signal(syscall.SIGSTOP)
		// Only Linux has this file. On other systems the children end by themselves soon after the server.
		list, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", p.Pid(), p.Pid()))
		for pid := range strings.FieldsSeq(string(list)) {
			if pid, err := strconv.Atoi(pid); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				children = append(children, pid)
			}
		}
	}
	p.Kill()
	for end := time.Now().Add(startLimit); slices.ContainsFunc(children, runs) && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// runs reports whether a process is running, and is not a zombie that waits for its new parent to reap it.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, found := strings.Cut(string(stat), ") ")
	return err == nil && !(found && strings.HasPrefix(state, "Z"))
}
