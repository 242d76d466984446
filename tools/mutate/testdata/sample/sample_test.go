package sample

import (
	"os"
	"testing"
)

func TestSum(t *testing.T) {
	if got := Sum(1, 2); got != 3 {
		t.Errorf("%d, want 3", got)
	}
}

func TestSumOfNothing(t *testing.T) {
	if got := Sum(0, 0); got != 0 {
		t.Errorf("%d, want 0", got)
	}
}

func TestWithin(t *testing.T) {
	if !Within(1, 3) || Within(5, 3) {
		t.Error("wrong")
	}
}

func TestSame(t *testing.T) {
	if got := Same(5); got != 5 {
		t.Errorf("%d, want 5", got)
	}
}

func TestCountdown(t *testing.T) {
	if got := Countdown(3); got != 3 {
		t.Errorf("%d steps, want 3", got)
	}
}

func TestGreeting(t *testing.T) {
	if got := Greeting("you"); got != "hello you" {
		t.Error(got)
	}
}

func TestOnce(t *testing.T) {
	marker := os.Getenv("SAMPLE_MARKER")
	if Once() {
		return
	}
	if _, err := os.Stat(marker); err != nil {
		_ = os.WriteFile(marker, nil, 0o600)
		t.Error("the first time")
	}
}

func TestWait(*testing.T) { Wait() }

func TestFails(t *testing.T) {
	t.Error("always")
}
