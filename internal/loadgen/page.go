package loadgen

import (
	"fmt"
	"time"

	"github.com/penstock-io/penstock/internal/progress"
	"github.com/penstock-io/penstock/internal/toolreport"
)

// Page returns the result for people.
func (r *Result) Page(target string) *toolreport.Page {
	p := &toolreport.Page{Title: "Load on " + target}
	loop := "closed loop"
	if r.Wanted > 0 {
		loop = fmt.Sprintf("open loop at %v/s", r.Wanted)
	}
	p.Addf("%s requests in %v: %.0f/s, %s.", progress.Grouped(r.Requests), r.Took.Round(time.Millisecond), r.Rate, loop)
	p.Addf("%s allowed, %s denied, %s failed.", progress.Grouped(r.Allowed), progress.Grouped(r.Denied), progress.Grouped(r.Failed))
	p.Addf("%v", &r.Over)
	if r.Wanted > 0 && r.Rate < 0.95*r.Wanted && r.Took > 2*time.Second {
		p.Addf("The target did not keep up with %v/s.", r.Wanted)
	}
	if r.Lag > 2*time.Millisecond {
		p.Addf("The generator itself was late by up to %v (99 %% of requests): this machine is too busy for exact latencies.", r.Lag.Round(100*time.Microsecond))
	}
	from := "sent"
	if r.Wanted > 0 {
		from = "due"
	}
	t := &toolreport.Table{Caption: "Latency, from when a request was " + from, Columns: []string{"percentile", "latency"}}
	c := &toolreport.Chart{Caption: "Latency in ms, by percentile (not to scale)", Axis: "percentile", Lines: []toolreport.Line{{Name: "latency"}}}
	for _, l := range r.Latency {
		t.Row(fmt.Sprintf("%v %%", l.Percent), round(l.Latency))
		c.Marks = append(c.Marks, fmt.Sprintf("%v %%", l.Percent))
		c.Lines[0].Values = append(c.Lines[0].Values, float64(l.Latency)/1e6)
	}
	p.Add(t, c)
	if len(r.Errors) > 0 {
		errors := &toolreport.Table{Caption: "Errors", Columns: []string{"count", "error"}}
		for _, e := range r.Errors[:min(len(r.Errors), 5)] {
			errors.Row(e.Count, e.Error)
		}
		p.Add(errors)
	}
	return p
}

func round(d time.Duration) time.Duration {
	switch {
	case d > 10*time.Millisecond:
		return d.Round(100 * time.Microsecond)
	case d > 10*time.Microsecond:
		return d.Round(time.Microsecond)
	}
	return d.Round(10 * time.Nanosecond)
}
