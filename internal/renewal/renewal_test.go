package renewal

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-io/penstock"
)

// concluder records when it is asked to renew.
type concluder struct {
	begin  time.Time
	asked  []time.Duration
	answer func(n int, v *penstock.Verdict) error // nil: no error, and the verdict stays empty
}

func (c *concluder) Conclude(ctx context.Context, what *penstock.Conclusion, v *penstock.Verdict) error {
	if what.Verb != penstock.Renew || what.Reservation != "some" || what.TTL != 0 || ctx.Err() != nil {
		return fmt.Errorf("asked for %+v, %v", what, ctx.Err())
	}
	c.asked = append(c.asked, time.Since(c.begin))
	v.Reset()
	if c.answer == nil {
		return nil
	}
	return c.answer(len(c.asked), v)
}

func TestKeep(t *testing.T) {
	permit := penstock.LimitVerdict{Algorithm: penstock.Concurrency, Window: 30 * time.Second}
	for name, test := range map[string]struct {
		verdict penstock.Verdict
		answer  func(n int, v *penstock.Verdict) error
		after   time.Duration
		want    string
		errs    int
	}{
		"three times in its time":       {penstock.Verdict{ReservedFor: 30 * time.Second}, nil, 35 * time.Second, "[10s 20s 30s]", 0},
		"ended before":                  {penstock.Verdict{ReservedFor: 30 * time.Second}, nil, 9 * time.Second, "[]", 0},
		"nobody says for how long":      {penstock.Verdict{}, nil, 4 * time.Minute, "[1m40s 3m20s]", 0},
		"nor of permits":                {penstock.Verdict{Limits: []penstock.LimitVerdict{permit}}, nil, 25 * time.Second, "[10s 20s]", 0},
		"shorter than timers go":        {penstock.Verdict{ReservedFor: time.Microsecond}, nil, 2500 * time.Microsecond, "[1ms 2ms]", 0},
		"a failure is tried again":      {penstock.Verdict{ReservedFor: 30 * time.Second}, func(n int, _ *penstock.Verdict) error { return failOn(n, 1) }, 25 * time.Second, "[10s 20s]", 1},
		"by what the rules say by then": {penstock.Verdict{ReservedFor: 30 * time.Second}, func(_ int, v *penstock.Verdict) error { v.ReservedFor = 3 * time.Second; return nil }, 12500 * time.Millisecond, "[10s 11s 12s]", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &concluder{begin: time.Now(), answer: test.answer}
				errs := 0
				ctx, cancel := context.WithCancel(t.Context())
				v := test.verdict
				v.Reservation = "some"
				stop := Keep(ctx, c, &v, func(error) { errs++ })
				v.Reset()
				cancel() // the client has disconnected, and the handler continues
				time.Sleep(test.after)
				stop()
				if got := fmt.Sprint(c.asked); got != test.want || errs != test.errs {
					t.Errorf("renewed after %s with %d errors, want %s with %d", got, errs, test.want, test.errs)
				}
				time.Sleep(time.Hour)
				if fmt.Sprint(c.asked) != test.want {
					t.Errorf("renewed after it was stopped: %v", c.asked)
				}
			})
		})
	}
}

func failOn(n, which int) error {
	if n == which {
		return errors.New("away")
	}
	return nil
}

// A renewal that is running when stop is called ends before stop returns, and reports nothing.
func TestStopWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowConcluder{}
		stop := Keep(t.Context(), s, &penstock.Verdict{Reservation: "some", ReservedFor: 3 * time.Second}, func(err error) { t.Error(err) })
		time.Sleep(1500 * time.Millisecond)
		stop()
		if !s.ended {
			t.Error("stop came back before the renewal")
		}
	})
}

// slowConcluder renews until it is cancelled.
type slowConcluder struct{ ended bool }

func (s *slowConcluder) Conclude(ctx context.Context, _ *penstock.Conclusion, _ *penstock.Verdict) error {
	<-ctx.Done()
	time.Sleep(time.Second)
	s.ended = true
	return ctx.Err()
}
