package redistest

import (
	"errors"
	"fmt"
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

// findBinary is the server to run: PENSTOCK_REDIS_SERVER, or redis-server on PATH or where Debian keeps servers.
func findBinary() (string, error) {
	if name := os.Getenv("PENSTOCK_REDIS_SERVER"); name != "" {
		path, err := exec.LookPath(name)
		if err != nil {
			return "", fmt.Errorf("find the server PENSTOCK_REDIS_SERVER names: %w", err)
		}
		return path, nil
	}
	for _, name := range []string{"redis-server", "/usr/local/sbin/redis-server", "/usr/sbin/redis-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("find redis-server: it is not on PATH; run `scripts/need redis-server`, " +
		"or set PENSTOCK_REDIS_SERVER to the path of a Redis or Valkey server")
}

func startProcess(binary string, args []string, logFile string) (*process, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own copy
	cmd := exec.Command(binary, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = dieWithParent()
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

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// kill ends the child, paused or not, and returns when it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only if it has ended already
	<-p.done
}

// signal returns once a stop has taken effect: the kernel only promises that it will.
func (p *process) signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil {
		return err
	}
	if sig == syscall.SIGSTOP {
		return awaitStopped(p)
	}
	return nil
}
