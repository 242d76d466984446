package config

import (
	"testing"
	"time"
)

func TestRulesHaveNoLessTimeThanDecisions(t *testing.T) {
	for given, want := range map[time.Duration]time.Duration{10 * time.Millisecond: 5 * time.Second, time.Minute: time.Minute} {
		r := Default().Store.Redis
		r.Timeout = given
		if o, err := r.RuleOptions(); err != nil || o.Timeout != want {
			t.Errorf("with a timeout of %v rules have %v, want %v (%v)", given, o.Timeout, want, err)
		}
	}
}
