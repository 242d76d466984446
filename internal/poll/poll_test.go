package poll

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		wake, runs, ended := NewWaker(), 0, false
		for range 3 {
			wake.Wake()
		}
		go func() {
			Every(ctx, time.Minute, wake, func() { runs++ })
			ended = true
		}()
		expect := func(what string, want int) {
			t.Helper()
			synctest.Wait()
			if runs != want {
				t.Errorf("%s: %d runs, want %d", what, runs, want)
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
		if !ended {
			t.Error("Every did not return")
		}
	})
}

func TestListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		calls, changes, failures := 0, 0, 0
		hear := false
		go Listen(ctx, func(_ context.Context, changed func()) error {
			calls++
			if hear {
				changed()
			}
			return errors.New("connection lost")
		}, func() { changes++ }, func(error) { failures++ })

		time.Sleep(time.Hour)
		synctest.Wait()
		if calls < 70 || calls > 260 || failures != calls || changes != 0 {
			t.Errorf("in an hour of failures: %d calls, %d failures, %d changes; the pauses must grow to 15 to 45 s", calls, failures, changes)
		}
		hear, calls = true, 0
		time.Sleep(time.Hour)
		synctest.Wait()
		if calls < 20_000 || changes != calls {
			t.Errorf("in an hour in which it hears something: %d calls, %d changes; the pauses must stay short", calls, changes)
		}
		cancel()
		synctest.Wait() // Listen has returned, or the test would not end
	})
}

func TestListenEndsWithoutError(t *testing.T) {
	Listen(t.Context(), func(context.Context, func()) error { return nil }, func() {}, func(err error) { t.Error(err) })
}
