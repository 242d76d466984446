package simulate

import "math"

// A trailingWindow counts the requests of one key in the window that ends now. It keeps every instant.
type trailingWindow struct {
	at    []int64
	first int
}

// count drops the requests that have left the window and returns how many are in it.
func (t *trailingWindow) count(now, window int64) int64 {
	for t.first < len(t.at) && t.at[t.first] <= now-window {
		t.first++
	}
	if t.first > 32 && t.first > len(t.at)/2 {
		t.at = t.at[:copy(t.at, t.at[t.first:])]
		t.first = 0
	}
	return int64(len(t.at) - t.first)
}

func (t *trailingWindow) add(at int64) { t.at = append(t.at, at) }

// Accuracy compares decisions with the exact count of the same stream. The exact count allows a request if the
// window that ends with it holds fewer requests than the limit.
type Accuracy struct {
	Compared       int64   `json:"compared"`
	WronglyAllowed int64   `json:"wrongly_allowed"`
	WronglyDenied  int64   `json:"wrongly_denied"`
	Difference     float64 `json:"sum_of_rate_differences"` // |estimated − exact| / exact, over those with 0 < exact ≤ limit
	Differences    int64   `json:"rate_differences"`
}

func (a *Accuracy) add(allowed bool, estimate, exact, limit int64) {
	a.Compared++
	switch should := exact < limit; {
	case allowed && !should:
		a.WronglyAllowed++
	case !allowed && should:
		a.WronglyDenied++
	}
	if exact > 0 && exact <= limit {
		a.Differences++
		a.Difference += math.Abs(float64(estimate-exact)) / float64(exact)
	}
}

func (a *Accuracy) sum(b *Accuracy) {
	a.Compared += b.Compared
	a.WronglyAllowed += b.WronglyAllowed
	a.WronglyDenied += b.WronglyDenied
	a.Difference += b.Difference
	a.Differences += b.Differences
}

// Wrong returns the share of decisions that differ from the exact count.
func (a *Accuracy) Wrong() float64 {
	return float64(a.WronglyAllowed+a.WronglyDenied) / float64(max(1, a.Compared))
}

// MeanDifference returns the mean relative difference of the estimated rate from the exact one.
func (a *Accuracy) MeanDifference() float64 { return a.Difference / float64(max(1, a.Differences)) }
