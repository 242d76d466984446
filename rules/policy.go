package rules

import (
	"fmt"

	"github.com/penstock-io/penstock"
)

// policies names limits: by the rule, and by what tells them apart if there are several.
func policies(rule string, limits []penstock.Limit) []string {
	names := make([]string, len(limits))
	for i := range limits {
		if names[i] = rule; len(limits) == 1 {
			break
		}
		l := &limits[i]
		names[i] += ":" + span(l)
		if occurs(limits, func(o *penstock.Limit) bool { return span(o) == span(l) }) > 1 {
			names[i] += ":" + l.Algorithm.String()
		}
		if occurs(limits, func(o *penstock.Limit) bool { return span(o) == span(l) && o.Algorithm == l.Algorithm }) > 1 {
			names[i] += fmt.Sprintf(":%v:%d", l.Refill, l.Ordinal)
		}
	}
	return names
}

func occurs(limits []penstock.Limit, is func(*penstock.Limit) bool) (n int) {
	for i := range limits {
		if is(&limits[i]) {
			n++
		}
	}
	return n
}

func span(l *penstock.Limit) string {
	switch {
	case l.Algorithm == penstock.Concurrency:
		return "concurrent"
	case l.Period != penstock.NoPeriod:
		return l.Period.String()
	}
	return Duration(l.Window).String()
}
