package poll

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		wake := NewWaker()
		var runs atomic.Int64
		var ended atomic.Bool
		for range 3 {
			wake.Wake()
		}
		go func() {
			Every(ctx, time.Minute, wake, func() { runs.Add(1) })
			ended.Store(true)
		}()
		expect := func(what string, want int64) {
			t.Helper()
			synctest.Wait()
			if got := runs.Load(); got != want {
				t.Errorf("%s: %d runs, want %d", what, got, want)
			}
		}
		expect("three signals at once", 1)
		time.Sleep(3 * time.Minute)
		expect("after three intervals", 4)
		wake.Wake()
		expect("another signal", 5)
		cancel()
		wake.Wake()
		expect("at the end", 5)
		if !ended.Load() {
			t.Error("Every did not return")
		}
	})
}

func TestListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var calls, changes, failures atomic.Int64
		var hear atomic.Bool
		go Listen(ctx, func(_ context.Context, changed func()) error {
			calls.Add(1)
			if hear.Load() {
				changed()
			}
			return errors.New("connection lost")
		}, func() { changes.Add(1) }, func(error) { failures.Add(1) })

		time.Sleep(time.Hour)
		synctest.Wait()
		silent := calls.Load()
		if silent < 70 || silent > 260 || failures.Load() != silent || changes.Load() != 0 {
			t.Errorf("in an hour of failures: %d calls, %d failures, %d changes; the pauses must grow to 15 to 45 s", silent, failures.Load(), changes.Load())
		}
		hear.Store(true)
		time.Sleep(time.Hour)
		synctest.Wait()
		if more := calls.Load() - silent; more < 20_000 || changes.Load() != more {
			t.Errorf("in an hour in which it hears something: %d calls, %d changes; the pauses must stay short", more, changes.Load())
		}
		cancel()
		synctest.Wait() // Listen has returned, or the test would not end
	})
}

func TestListenEndsWithoutError(t *testing.T) {
	Listen(t.Context(), func(context.Context, func()) error { return nil }, func() {}, func(err error) { t.Error(err) })
}

func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := Pause(t.Context(), time.Hour); err != nil || time.Since(began) != time.Hour {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := Pause(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Hour+time.Minute {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}
