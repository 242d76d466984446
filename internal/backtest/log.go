package backtest

import (
	"cmp"
	"fmt"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/attribute"
	"github.com/penstock-io/penstock/internal/accesslog"
	"github.com/penstock-io/penstock/internal/simulator/replay"
	"github.com/penstock-io/penstock/rules"
)

// RequestOf returns a request of a log as a replay takes it.
func RequestOf(q *accesslog.Request, domain string) *replay.Request {
	return &replay.Request{At: q.At, Took: q.Took, Status: q.Status, Domain: domain, Attributes: q.Attributes, Cost: q.Cost}
}

// Attributes returns the attributes that rules read from requests. Rules match methods and paths without naming
// them as attributes.
func Attributes(s *rules.Snapshot, domain string) []accesslog.Attribute {
	all := []accesslog.Attribute{{Name: "method"}, {Name: "path"}}
	_ = s.CheckAttributes(cmp.Or(domain, penstock.DefaultDomain), func(attribute string, from *attribute.Source) error {
		if attribute != "method" && attribute != "path" {
			all = append(all, accesslog.Attribute{Name: attribute, From: from})
		}
		return nil
	})
	return all
}

// CheckAttributes reports rules that read an attribute which the log cannot have, because they would seem to deny
// nothing. It skips attributes that are not read from the log.
func CheckAttributes(s *rules.Snapshot, domain string, log *accesslog.Log) error {
	stats := log.Stats()
	return s.CheckAttributes(cmp.Or(domain, penstock.DefaultDomain), func(attribute string, from *attribute.Source) error {
		missing, asked := stats.Missing[attribute]
		if !asked {
			return nil
		}
		if err := log.CheckAttribute(accesslog.Attribute{Name: attribute, From: from}); err != nil {
			return fmt.Errorf("%w; or continue without it with --without %s", err, attribute)
		}
		if missing == stats.Requests && missing > 0 {
			return fmt.Errorf("none of %d requests has the attribute %q; say where the log has it with --field %s=NAME, or continue without it with --without %[3]s", missing, attribute, attribute)
		}
		return nil
	})
}

// span rounds a duration for people.
func span(d time.Duration) time.Duration {
	if d > time.Minute {
		return d.Round(time.Second)
	}
	return d.Round(time.Millisecond)
}
