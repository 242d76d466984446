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

// crash ends a server and its children, as a crash of the machine would, and returns when all are gone.
//
// Each of its children leads a session, so that no signal to a group finds them. Left alone they would finish what they
// are at and keep the memory a restarted server waits for. The server is stopped first, lest it starts others or tidies
// up after those that died. They are waited for, as what the last of them does in its data may hinder who removes it.
func crash(p *child.Process) {
	var children []int
	if !p.Exited() {
		_ = p.Signal(syscall.SIGSTOP)
		// Only Linux has this file; elsewhere the children end by themselves soon after the server.
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

// runs tells whether a process is there, and not only its name, until whoever has inherited it takes note.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, found := strings.Cut(string(stat), ") ")
	return err == nil && !(found && strings.HasPrefix(state, "Z"))
}
