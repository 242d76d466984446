package child

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
	"time"
)

func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }

func (p *Process) awaitStopped() error {
	const limit = time.Minute
	for end := time.Now().Add(limit); ; time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid()))
		if err != nil {
			return err
		}
		// "pid (name) state ...", where the name may contain anything, including parentheses.
		_, rest, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
		if bytes.HasPrefix(rest, []byte("T")) {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("process %d has not stopped after %v", p.Pid(), limit)
		}
	}
}
