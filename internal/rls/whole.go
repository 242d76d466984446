package rls

import (
	"slices"

	"github.com/penstock-io/penstock"
)

// combine returns one verdict for a client, which knows nothing about descriptors: of those that deny the one with the
// longest wait, else the one with the least remaining, with the limits of all.
func combine(a *Answers) *penstock.Verdict {
	if len(a.Each) == 1 && a.Each[0].Verdict.Allowed == a.Allowed {
		return &a.Each[0].Verdict
	}
	var speaks *penstock.Verdict
	var limits []penstock.LimitVerdict
	for i := range a.Each {
		v := &a.Each[i].Verdict
		if speaks == nil || stricter(v, speaks, a.Allowed) {
			speaks = v
		}
		for k := range v.Limits {
			limits = list(limits, &v.Limits[k])
		}
	}
	all := *speaks
	all.Allowed, all.Limits = a.Allowed, limits
	return &all
}

// stricter reports whether the client should be told v rather than w.
func stricter(v, w *penstock.Verdict, allowed bool) bool {
	switch {
	case !allowed && v.Allowed != w.Allowed:
		return w.Allowed
	case !allowed && v.Allowed: // w allows it too: another one denies
		return false
	case !allowed && (v.Decision.RetryAfter == penstock.Never || w.Decision.RetryAfter == penstock.Never):
		return w.Decision.RetryAfter != penstock.Never
	case !allowed:
		return v.Decision.RetryAfter > w.Decision.RetryAfter
	case v.Rule == "" || w.Rule == "":
		return v.Rule != ""
	}
	return v.Decision.Remaining < w.Decision.Remaining
}

// list adds a limit. A policy that counted the request twice is listed once, with the stricter state.
func list(limits []penstock.LimitVerdict, l *penstock.LimitVerdict) []penstock.LimitVerdict {
	i := slices.IndexFunc(limits, func(have penstock.LimitVerdict) bool {
		return have.Policy == l.Policy && have.Shadow == l.Shadow
	})
	switch {
	case i < 0:
		return append(limits, *l)
	case limits[i].Allowed && (!l.Allowed || l.Remaining < limits[i].Remaining):
		limits[i] = *l
	}
	return limits
}
