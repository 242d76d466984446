package pgtest

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// process is a child that is waited for as soon as it starts, so that its end is always known.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed once the child has ended and been reaped
}

func startProcess(as owner, logFile, binary string, args ...string) (*process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own copy
	cmd := exec.Command(binary, args...)
	cmd.Dir = "/" // ours may be closed to the server's user
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = childAttributes(as)
	if err := startOnLastingThread(cmd); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // killed is the usual end; the log tells of any other
		close(p.done)
	}()
	return p, nil
}

type startRequest struct {
	cmd    *exec.Cmd
	result chan error
}

// The kernel's parent-death signal fires when the *thread* that forked the child ends, and the Go runtime ends threads
// as it likes. So every child is forked from one goroutine that owns its thread and lives as long as the process.
var startRequests = sync.OnceValue(func() chan<- startRequest {
	requests := make(chan startRequest)
	go func() {
		runtime.LockOSThread()
		for r := range requests {
			r.result <- r.cmd.Start()
		}
	}()
	return requests
})

func startOnLastingThread(cmd *exec.Cmd) error {
	r := startRequest{cmd, make(chan error)}
	startRequests() <- r
	return <-r.result
}

// runOnLastingThread runs cmd to its end and returns what it printed.
func runOnLastingThread(cmd *exec.Cmd) ([]byte, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := startOnLastingThread(cmd); err != nil {
		return nil, err
	}
	err := cmd.Wait()
	return out.Bytes(), err
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *process) signal(sig syscall.Signal) error { return p.cmd.Process.Signal(sig) }

// kill ends the child and its children, as a crash of the machine would, and returns when it is gone.
func (p *process) kill() {
	if !p.exited() {
		killChildren(p)
		_ = p.cmd.Process.Kill() // fails only if it has ended already
	}
	<-p.done
}
