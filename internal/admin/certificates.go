package admin

import (
	"time"

	"github.com/penstock-io/penstock/internal/spelling"
)

// A CertificateStatus is how long the certificate of a listener is valid.
type CertificateStatus struct {
	Listener  string    `json:"listener"`
	NotBefore time.Time `json:"not_before"`
	NotAfter  time.Time `json:"not_after"`
	Refusals  int64     `json:"refusals"` // changes of the files that were refused
}

// Expired reports whether clients refuse the certificate because of its age.
func (c *CertificateStatus) Expired(now time.Time) bool { return !now.Before(c.NotAfter) }

// ExpiresSoon reports whether less than a week is left, or less than a third of a lifetime of less than three weeks:
// short certificates are renewed more often.
func (c *CertificateStatus) ExpiresSoon(now time.Time) bool {
	return c.NotAfter.Sub(now) < min(7*24*time.Hour, c.NotAfter.Sub(c.NotBefore)/3)
}

// Text says when the certificate expires.
func (c *CertificateStatus) Text(now time.Time) string {
	left, verb, after := c.NotAfter.Sub(now), "expires in ", ""
	if c.Expired(now) {
		left, verb, after = -left, "expired ", " ago"
	}
	long := spelling.Duration(left.Truncate(time.Minute))
	if days := int(left.Hours() / 24); days > 1 {
		long = spelling.Count(days, "day")
	}
	return verb + long + after + ", at " + c.NotAfter.UTC().Format(time.RFC3339)
}
