package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	sampleInterval = 100 * time.Millisecond
	ticksPerSecond = 100     // of the times in /proc
	maxResident    = 4 << 30 // a mutant that allocates without end must not take the machine with it
)

// A usage is what a process and its children used.
type usage struct {
	exit     int
	own      time.Duration // processor time, and time in which none of them had work
	exceeded string        // the limit that ended it; "": none
}

// runLimited runs a command in a session of its own until it ends or exceeds a limit. Then it ends the session.
//
// The limit is on the process's own time: what it uses of the processors, and what it sleeps. On a busy machine, wall
// time passes while threads wait for a processor; that is not counted. The processor time alone would never end a
// process whose goroutines wait for each other.
func runLimited(ctx context.Context, command *exec.Cmd, limit time.Duration) (*usage, []byte, error) {
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	command.WaitDelay = time.Second // children may hold the pipe of the output open
	if err := command.Start(); err != nil {
		return nil, nil, err
	}
	session := command.Process.Pid
	done := make(chan error, 1)
	go func() { done <- command.Wait() }()
	defer killSession(session)

	u := &usage{}
	var idle time.Duration
	ticker := time.NewTicker(sampleInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			killSession(session)
			<-done
			return nil, nil, ctx.Err()
		case err := <-done:
			state := command.ProcessState
			if state == nil {
				return nil, nil, fmt.Errorf("wait for %s: %w", filepath.Base(command.Path), err)
			}
			u.exit = state.ExitCode()
			u.own = max(u.own, state.UserTime()+state.SystemTime()+idle)
			return u, output.Bytes(), nil
		case <-ticker.C:
			s := sampleSession(session)
			if !s.runnable {
				idle += sampleInterval
			}
			u.own = max(u.own, s.used+idle)
			switch {
			case u.exceeded != "":
			case u.own > limit:
				u.exceeded = "time"
			case s.resident > maxResident:
				u.exceeded = "memory"
			}
			if u.exceeded != "" {
				killSession(session)
			}
		}
	}
}

// A sample is the state of all processes of a session at an instant.
type sample struct {
	used     time.Duration // by them, and by children that ended
	runnable bool          // a thread runs, or waits for a processor or a disk
	resident int64
}

func sampleSession(session int) (s sample) {
	for _, pid := range sessionMembers(session) {
		fields := statFields("/proc/" + pid + "/stat")
		if fields == nil {
			continue
		}
		for _, i := range []int{11, 12, 13, 14} { // utime, stime, cutime, cstime
			s.used += time.Duration(fields.number(i)) * time.Second / ticksPerSecond
		}
		s.resident += fields.number(21) * int64(os.Getpagesize())
		threads, _ := filepath.Glob("/proc/" + pid + "/task/*/stat")
		s.runnable = s.runnable || slices.ContainsFunc(threads, func(name string) bool {
			f := statFields(name)
			return f != nil && (f[0] == "R" || f[0] == "D")
		})
	}
	return s
}

func killSession(session int) {
	for _, pid := range sessionMembers(session) {
		if n, err := strconv.Atoi(pid); err == nil {
			_ = syscall.Kill(n, syscall.SIGKILL) // ended meanwhile: nothing to do
		}
	}
}

func sessionMembers(session int) (pids []string) {
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		if name := entry.Name(); name[0] >= '1' && name[0] <= '9' {
			if fields := statFields("/proc/" + name + "/stat"); fields != nil && fields.number(3) == int64(session) {
				pids = append(pids, name)
			}
		}
	}
	return pids
}

// stat is what follows the name of the process in a stat file of /proc: state, ppid, pgrp, session and more.
type stat []string

func statFields(name string) stat {
	data, err := os.ReadFile(name)
	if err != nil { // ended meanwhile
		return nil
	}
	_, rest, ok := strings.Cut(string(data[bytes.LastIndexByte(data, ')')+1:]), " ")
	if fields := strings.Fields(rest); ok && len(fields) > 21 {
		return fields
	}
	return nil
}

func (s stat) number(i int) int64 {
	n, _ := strconv.ParseInt(s[i], 10, 64)
	return n
}
