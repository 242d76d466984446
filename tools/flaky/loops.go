package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
)

// loopVariable makes this program a busy loop.
const loopVariable = "PENSTOCK_FLAKY_LOOP"

// loop keeps one processor busy until its standard input ends. That is a pipe from the process that started it, so it
// ends with that process, whatever ends it.
func loop() {
	runtime.GOMAXPROCS(1)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	for n := new(atomic.Int64); ; {
		n.Add(1)
	}
}

// startLoops starts busy loops. The function that it returns ends them.
func startLoops(n int) (stop func(), err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var ends []func() error
	stop = func() {
		for _, end := range ends {
			_ = end() // a loop that is gone has no work left
		}
	}
	for range n {
		command := exec.Command(program)
		command.Env = append(os.Environ(), loopVariable+"=1")
		input, err := command.StdinPipe()
		if err == nil {
			err = command.Start()
		}
		if err != nil {
			stop()
			return nil, fmt.Errorf("start a busy loop: %w", err)
		}
		ends = append(ends, func() error { return errors.Join(input.Close(), command.Wait()) })
	}
	return stop, nil
}
