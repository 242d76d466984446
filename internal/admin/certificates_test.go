package admin

import (
	"testing"
	"time"
)

// A certificate expires soon when it should have been renewed, which depends on how long it lives.
func TestCertificateStatus(t *testing.T) {
	const day = 24 * time.Hour
	now := time.Date(2026, 1, 31, 3, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		lives, left   time.Duration
		soon, expired bool
		text          string
	}{
		{90 * day, 30*day + time.Hour, false, false, "expires in 30 days, at 2026-03-02T04:00:00Z"},
		{90 * day, 7*day - time.Hour, true, false, "expires in 6 days, at 2026-02-07T02:00:00Z"},
		{day, 9 * time.Hour, false, false, "expires in 9h, at 2026-01-31T12:00:00Z"},
		{day, 7 * time.Hour, true, false, "expires in 7h, at 2026-01-31T10:00:00Z"},
		{90 * day, 0, true, true, "expired 0s ago, at 2026-01-31T03:00:00Z"},
		{90 * day, -3 * day, true, true, "expired 3 days ago, at 2026-01-28T03:00:00Z"},
	} {
		end := now.Add(test.left)
		c := CertificateStatus{Listener: "grpc", NotBefore: end.Add(-test.lives), NotAfter: end}
		if soon, expired, text := c.ExpiresSoon(now), c.Expired(now), c.Text(now); soon != test.soon || expired != test.expired || text != test.text {
			t.Errorf("%v of %v left: soon %v, expired %v, %q", test.left, test.lives, soon, expired, text)
		}
	}
}
