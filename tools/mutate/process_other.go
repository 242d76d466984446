//go:build !linux

package main

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"time"
)

// A usage is what a process used.
type usage struct {
	exit     int
	own      time.Duration
	exceeded string // the limit that ended it; "": none
}

// runLimited runs a command until it ends or exceeds the limit. Without /proc, the limit is on wall time.
func runLimited(ctx context.Context, command *exec.Cmd, limit time.Duration) (*usage, []byte, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var output bytes.Buffer
	bounded := exec.CommandContext(limited, command.Path, command.Args[1:]...)
	bounded.Dir, bounded.Env = command.Dir, command.Env
	bounded.Stdout, bounded.Stderr = &output, &output
	bounded.WaitDelay = time.Second
	start := time.Now()
	err := bounded.Run()
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) && limited.Err() == nil {
		return nil, nil, err
	}
	u := &usage{exit: bounded.ProcessState.ExitCode(), own: time.Since(start)}
	if limited.Err() != nil {
		u.exceeded = "time"
	}
	return u, output.Bytes(), nil
}
