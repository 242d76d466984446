package live_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-io/penstock/rules"
	"github.com/penstock-io/penstock/rules/live"
)

// Reread gets new rules before the interval is over.
func TestReread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		origin := &memory{silent: true}
		origin.has(1, ruleNamed("one"))
		served, err := live.Follow(t.Context(), origin, live.Options{Compile: rules.Options{Secret: "test"}, Interval: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		defer served.Close()
		synctest.Wait()
		origin.has(2, ruleNamed("two"))
		synctest.Wait()
		if got := served.Status().Version; got != 1 {
			t.Errorf("version %d is served before anybody has asked", got)
		}
		served.Reread()
		synctest.Wait()
		if got := served.Status().Version; got != 2 {
			t.Errorf("version %d is served", got)
		}
	})
}
