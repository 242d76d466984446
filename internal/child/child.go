// Package child runs the servers that tests need. It waits for each child from its start, so that its exit
// is always noticed, and no child outlives the process that started it.
package child

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// Process is a child process that is running or has exited.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed once the child has exited and been reaped
}

// Start starts a command that appends its output to a log file.
func Start(cmd *exec.Cmd, logFile string) (*Process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own copy
	cmd.Stdout, cmd.Stderr = log, log
	if err := start(cmd); err != nil {
		return nil, err
	}
	p := &Process{cmd: cmd, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // killed is the usual end; the log explains any other
		close(p.done)
	}()
	return p, nil
}

// Run runs a command to its end and returns its output.
func Run(cmd *exec.Cmd) ([]byte, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := start(cmd); err != nil {
		return nil, err
	}
	err := cmd.Wait()
	return out.Bytes(), err
}

type startRequest struct {
	cmd    *exec.Cmd
	result chan error
}

// The kernel's parent-death signal fires when the *thread* that forked the child ends, and the Go runtime
// may end threads at any time. So every child is forked from one goroutine that owns its thread and lives
// as long as the process.
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

func start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	dieWithParent(cmd.SysProcAttr)
	r := startRequest{cmd, make(chan error)}
	startRequests() <- r
	return <-r.result
}

// Pid returns the process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done returns a channel that is closed once the child has exited.
func (p *Process) Done() <-chan struct{} { return p.done }

// Exited reports whether the child has exited.
func (p *Process) Exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Kill kills the child, paused or not, and returns when it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails only if it has already exited
	<-p.done
}

// Signal sends a signal. For a stop, it returns once the stop has taken effect: the kernel only promises
// that it will.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil {
		return err
	}
	if sig == syscall.SIGSTOP {
		return p.awaitStopped()
	}
	return nil
}

// LogTail returns the end of a log file, which says why a server did not start.
func LogTail(file string) string {
	log, err := os.ReadFile(file)
	if err != nil {
		return "no log: " + err.Error()
	}
	const most = 2000
	return string(log[max(0, len(log)-most):])
}
