package doors

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/penstock-io/penstock/internal/child"
)

// A server is a running contestant.
type server struct {
	addr    string
	process *child.Process
}

// start starts a command that listens at an address, and waits until it does.
func start(ctx context.Context, dir, name, addr string, cmd *exec.Cmd) (*server, error) {
	log := filepath.Join(dir, name+".log")
	cmd.Dir = dir
	p, err := child.Start(cmd, log)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	s := &server{addr, p}
	giveUp := time.After(20 * time.Second)
	for {
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			conn.Close()
			return s, nil
		}
		select {
		case <-ctx.Done():
			p.Kill()
			return nil, ctx.Err()
		case <-p.Done():
			return nil, fmt.Errorf("%s has ended:\n%s", name, child.LogTail(log))
		case <-giveUp:
			p.Kill()
			return nil, fmt.Errorf("%s does not listen at %s:\n%s", name, addr, child.LogTail(log))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// stop sends SIGTERM first: nginx leaves its workers behind if it is killed.
func (s *server) stop() {
	_ = s.process.Signal(syscall.SIGTERM) // fails only if it has ended already
	select {
	case <-s.process.Done():
	case <-time.After(5 * time.Second):
		s.process.Kill()
	}
}

// cpu returns the processor time that the process and its children have used.
func (s *server) cpu() (time.Duration, error) {
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux there is
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	pid := strconv.Itoa(s.process.Pid())
	var ticks int64
	found := false
	for _, stat := range stats {
		text, err := os.ReadFile(stat)
		if err != nil {
			continue // it has ended
		}
		// pid (name) state ppid ... utime is the 14th field, stime the 15th; the name may hold spaces.
		begin, rest, ok := strings.Cut(string(text), " (")
		end := strings.LastIndex(rest, ") ")
		if !ok || end < 0 {
			continue
		}
		fields := strings.Fields(rest[end+2:])
		if len(fields) < 13 || begin != pid && fields[1] != pid {
			continue
		}
		found = true
		for _, f := range fields[11:13] {
			n, err := strconv.ParseInt(f, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", stat, err)
			}
			ticks += n
		}
	}
	if !found {
		return 0, errors.New("processor time of a process that has ended")
	}
	return time.Duration(ticks) * tick, nil
}

// freeAddr returns an unused address.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func write(dir, name, text string) (string, error) {
	file := filepath.Join(dir, name)
	return file, os.WriteFile(file, []byte(text), 0o644)
}
