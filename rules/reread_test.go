package rules_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-io/penstock/rules"
)

// Who asks for it gets new rules before the interval is over.
func TestReread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		origin := &memory{silent: true}
		origin.has(1, ruleNamed("one"))
		live, err := rules.Follow(t.Context(), origin, rules.LiveOptions{Compile: rules.Options{Secret: "test"}, Interval: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		defer live.Close()
		synctest.Wait()
		origin.has(2, ruleNamed("two"))
		synctest.Wait()
		if got := live.Status().Version; got != 1 {
			t.Errorf("version %d is served before anybody has asked", got)
		}
		live.Reread()
		synctest.Wait()
		if got := live.Status().Version; got != 2 {
			t.Errorf("version %d is served", got)
		}
	})
}
