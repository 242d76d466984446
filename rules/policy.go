package rules

import (
	"fmt"

	"github.com/penstock-io/penstock"
)

// policies names limits by the rule and, if there are several, by what distinguishes them.
func policies(rule string, limits []penstock.Limit) []string {
	if len(limits) == 1 {
		return []string{rule}
	}
	names := make([]string, len(limits))
	occurs := map[string]int{} // spans, and spans with algorithms
	for i := range limits {
		names[i] = ":" + span(&limits[i])
		occurs[names[i]]++
		occurs[names[i]+":"+limits[i].Algorithm.String()]++
	}
	for i := range limits {
		l, name := &limits[i], names[i]
		if occurs[name] > 1 {
			name += ":" + l.Algorithm.String()
		}
		if occurs[names[i]+":"+l.Algorithm.String()] > 1 {
			name += fmt.Sprintf(":%v:%d", l.Refill, l.Ordinal)
		}
		names[i] = rule + name
	}
	return names
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
