package main

// model is the definition written down as plainly as possible: it keeps every
// entry ever admitted and adds up the window each time. The scripts must agree
// with it in all four numbers.
type model struct {
	entries []entry
}

type entry struct{ instant, cost int64 }

func (m *model) decide(q call) answer {
	now := q.now
	if n := len(m.entries); n > 0 {
		now = max(now, m.entries[n-1].instant) // a clock stepping back frees nothing
	}
	a := m.window(now - q.window)
	switch {
	case q.cost > q.limit:
		a.retry = -1
	case a.sum+q.cost > q.limit:
		a.retry = m.passesAt(now, q)
	default:
		a.allowed = true
		if q.cost > 0 {
			m.entries = append(m.entries, entry{now, q.cost})
			a.sum += q.cost
			a.newest = now
		}
	}
	return a
}

// window sums what lies after cutoff.
func (m *model) window(cutoff int64) answer {
	var a answer
	for _, e := range m.entries {
		if e.instant > cutoff {
			a.sum += e.cost
			a.newest = e.instant
		}
	}
	return a
}

// passesAt tries every instant at which an entry leaves, in order.
func (m *model) passesAt(now int64, q call) int64 {
	for _, e := range m.entries {
		leaves := e.instant + q.window
		if leaves > now && m.window(e.instant).sum+q.cost <= q.limit {
			return leaves
		}
	}
	return -1
}
