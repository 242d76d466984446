package sample

import (
	"os"
	"testing"
)

func TestReliable(*testing.T) {}

func TestSkipped(t *testing.T) { t.Skip("not here") }

// TestSecondTime fails the second time that it runs.
func TestSecondTime(t *testing.T) {
	t.Run("part", func(t *testing.T) {
		log, err := os.OpenFile(os.Getenv("SAMPLE_LOG"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		if _, err := log.WriteString("x"); err != nil {
			t.Fatal(err)
		}
		if info, err := log.Stat(); err != nil || info.Size() == 2 {
			t.Error("the second time", err)
		}
	})
}

// TestEnds ends the process the fourth time that TestSecondTime runs.
func TestEnds(t *testing.T) {
	if info, err := os.Stat(os.Getenv("SAMPLE_LOG")); err == nil && info.Size() == 4 {
		os.Exit(7)
	}
}
