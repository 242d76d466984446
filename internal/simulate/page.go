package simulate

import (
	"fmt"
	"time"

	"github.com/penstock-io/penstock/internal/progress"
	"github.com/penstock-io/penstock/internal/toolreport"
)

func (t *Traffic) String() string {
	spread := "evenly spread"
	if t.Zipf > 0 {
		spread = fmt.Sprintf("the k-th has a share like (%v+k)^-%v", t.Shift, t.Zipf)
	}
	return fmt.Sprintf("%s traffic, %v requests/s on average, %s keys (%s), seed %d", t.Model, t.Rate, progress.Grouped(int64(t.Keys)), spread, t.Seed)
}

func percent(share float64) string { return fmt.Sprintf("%.4f %%", 100*share) }

// Page returns the results of a simulation for people.
func (s *Simulation) Page(results []Result) *toolreport.Page {
	p := &toolreport.Page{Title: "Simulation"}
	nodes := "one node"
	if s.Nodes > 1 {
		nodes = fmt.Sprintf("%d nodes, counting %s", s.Nodes, s.Sharing)
	}
	p.Addf("%s requests: %v; %s.", progress.Grouped(s.Requests), &s.Traffic, nodes)
	if s.Outage.For > 0 {
		p.Addf("The store cannot be reached from %v on, for %v; on_store_error is %s.", s.Outage.From, s.Outage.For, s.Outage.Policy)
	}
	t := &toolreport.Table{Columns: []string{"limit", "counts", "admitted", "denied", "wrongly allowed", "wrongly denied", "wrong", "largest overshoot", "rate difference", "counters", "memory"}}
	c := &toolreport.Chart{Caption: "Wrong decisions, in %", Axis: "limits, in the order above", From: "first", To: "last", Lines: []toolreport.Line{{Name: "wrong"}}}
	for i := range results {
		r := &results[i]
		counts := "admitted"
		if r.CountAll {
			counts = "all"
		}
		t.Row(r.Limit, counts, progress.Grouped(r.Admitted), progress.Grouped(r.Denied), progress.Grouped(r.WronglyAllowed), progress.Grouped(r.WronglyDenied),
			percent(r.Wrong()), progress.Grouped(r.Overshoot), fmt.Sprintf("%.1f %%", 100*r.MeanDifference()), progress.Grouped(r.Keys), atMost(r.Bytes))
		c.Lines[0].Values = append(c.Lines[0].Values, 100*r.Wrong())
	}
	p.Add(t)
	if len(results) > 1 {
		p.Add(c)
	}
	p.Add(toolreport.Text("Wrong: not as an exact count of the requests in the window that ends with the request.\nOvershoot: how many more than the limit were admitted in some trailing window.\nMemory is that of the store at the end, its empty tables included, rounded up."))
	return p
}

// atMost rounds bytes up to a power of two, because the layout of the store's tables varies from run to run.
func atMost(n int64) string {
	mib := int64(1)
	for mib<<20 < n {
		mib *= 2
	}
	return fmt.Sprintf("%d MiB", mib)
}

// Page returns the result of a study for people.
func (r *StudyResult) Page() *toolreport.Page {
	s := r.Study
	p := &toolreport.Page{Title: "Accuracy study"}
	p.Addf("%s requests under %s: %v.", progress.Grouped(r.Admitted.Compared), s.Text, &s.Traffic)
	p.Addf("In slices of %s requests, each with a seed of its own; the first %v of each only fill the counters.", progress.Grouped(s.Slice), 2*s.Limit.Window)
	t := &toolreport.Table{Columns: []string{"", "counting admitted requests", "counting all requests", "Cloudflare (all)"}}
	row := func(name string, of func(a *Accuracy, denied int64) string, theirs string) {
		t.Row(name, of(&r.Admitted, r.Denied[0]), of(&r.All, r.Denied[1]), theirs)
	}
	row("denied", func(a *Accuracy, denied int64) string { return percent(float64(denied) / float64(max(1, a.Compared))) }, "–")
	row("wrongly allowed", func(a *Accuracy, _ int64) string { return share(a.WronglyAllowed, a.Compared) }, "–")
	row("wrongly denied", func(a *Accuracy, _ int64) string { return share(a.WronglyDenied, a.Compared) }, "–")
	row("wrong", func(a *Accuracy, _ int64) string { return share(a.WronglyAllowed+a.WronglyDenied, a.Compared) }, "0.003 %")
	row("average rate difference", func(a *Accuracy, _ int64) string { return fmt.Sprintf("%.1f %%", 100*a.MeanDifference()) }, "6 %")
	p.Add(t, toolreport.Text("Cloudflare's figures are of its own traffic and limits, which are not published; they cannot be compared number by number."))
	return p
}

func share(n, of int64) string {
	return fmt.Sprintf("%s (%s)", percent(float64(n)/float64(max(1, of))), progress.Grouped(n))
}

// Predict returns how long a study of that many requests would take, given that done requests took that long.
func Predict(requests, done int64, took time.Duration) time.Duration {
	return time.Duration(float64(took) * float64(requests) / float64(max(1, done))).Round(time.Second)
}
