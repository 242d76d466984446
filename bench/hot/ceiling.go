package hot

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Enough to keep Redis busy while responses are read.
const (
	connections = 4
	pipeline    = 16
)

// replay sends a recorded run of the script repeatedly, pipelined, for the given time, and returns how long it
// took until the last was answered. redis-benchmark would do the same, but ends an argument at the first zero
// byte, and a packed run has many.
func replay(ctx context.Context, addr string, run []byte, during time.Duration) (elapsed time.Duration, err error) {
	failures := make([]error, connections)
	var all sync.WaitGroup
	began := time.Now()
	for i := range connections {
		all.Go(func() {
			failures[i] = replayOn(ctx, addr, bytes.Repeat(run, pipeline), began.Add(during))
		})
	}
	all.Wait()
	elapsed = time.Since(began)
	if err := errors.Join(failures...); err != nil {
		return elapsed, fmt.Errorf("replay a run of the script: %w", err)
	}
	return elapsed, nil
}

// replayOn sends a pipeline of runs at once, on its own connection, until the time is up, but at least once.
func replayOn(ctx context.Context, addr string, runs []byte, until time.Time) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(until.Add(timeout)); err != nil {
		return err
	}
	replies := bufio.NewReaderSize(conn, 64<<10)
	for {
		if _, err := conn.Write(runs); err != nil {
			return err
		}
		for range pipeline {
			size, err := header(replies, '$') // an error of the script would begin with a minus
			if err == nil {
				_, err = replies.Discard(size + len("\r\n"))
			}
			if err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil || !time.Now().Before(until) {
			return err
		}
	}
}
