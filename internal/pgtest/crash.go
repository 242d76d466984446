package pgtest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/penstock-io/penstock/internal/child"
)

// crash ends a server and its children, as a crash of the machine would, and returns when it is gone.
//
// Each of its children leads a session, so that no signal to a group finds them. Left alone they would finish what they
// are at and keep the memory a restarted server waits for. The server is stopped first, lest it starts others or tidies
// up after those that died.
func crash(p *child.Process) {
	if !p.Exited() {
		_ = p.Signal(syscall.SIGSTOP)
		// Only Linux has this file; elsewhere the children end by themselves soon after the server.
		list, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", p.Pid(), p.Pid()))
		for pid := range strings.FieldsSeq(string(list)) {
			if pid, err := strconv.Atoi(pid); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
	p.Kill()
}
