package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/penstock-io/penstock/bench/remote"
	"github.com/penstock-io/penstock/internal/redistest"
)

// Info returns one field of a section of the server's INFO.
func Info(addr, section, field string) (string, error) {
	text, err := redistest.Command(addr, "INFO", section)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); name == field {
			return value, nil
		}
	}
	return "", fmt.Errorf("INFO %s of %s has no field %q", section, addr, field)
}

func infoNumber(addr, section, field string) (float64, error) {
	text, err := Info(addr, section, field)
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("INFO %s of %s, %s: %w", section, addr, field, err)
	}
	return v, nil
}

// ServerCPU returns the processor time the server has used so far, in seconds. Unlike elapsed time it does not
// grow while other processes use the processor.
func ServerCPU(addr string) (float64, error) {
	user, err := infoNumber(addr, "cpu", "used_cpu_user")
	if err != nil {
		return 0, err
	}
	system, err := infoNumber(addr, "cpu", "used_cpu_sys")
	return user + system, err
}

// ownCPU returns the processor time that this process has used so far.
func ownCPU() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("read this process's processor time: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// Keys returns the names of n keys, 16 characters each.
func Keys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("key-%012d", i)
	}
	return keys
}

// Warm creates the state of every key, with enough clients to keep the server busy.
func Warm(ctx context.Context, limiter remote.Limiter, keys []string) error {
	const callers = 64
	var next atomic.Int64
	var failed error
	var once sync.Once
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(keys)); i = next.Add(1) - 1 {
				if err := limiter.Warm(ctx, keys[i]); err != nil {
					once.Do(func() { failed = fmt.Errorf("warm %q: %w", keys[i], err) })
					return
				}
			}
		})
	}
	all.Wait()
	return failed
}
