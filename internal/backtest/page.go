package backtest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock-io/penstock/internal/accesslog"
	"github.com/penstock-io/penstock/internal/progress"
	"github.com/penstock-io/penstock/internal/toolreport"
)

// Page returns the report for people.
func (r *Report) Page() *toolreport.Page {
	p := &toolreport.Page{Title: "Backtest"}
	DescribeLog(p, &r.Log)
	for i := range r.Documents {
		r.Documents[i].describe(p, r.Log.Requests)
	}
	if rec := r.Recorded; rec != nil {
		p.Addf("Compared with the decisions in the log: %s the same, %s different; %s were not exact then and are not compared.", progress.Grouped(rec.Same), progress.Grouped(rec.Differs), progress.Grouped(rec.Inexact))
	}
	if r.Difference != nil {
		r.describeDifference(p)
	}
	if r.Log.Requests > 0 {
		p.Add(r.chart())
	}
	return p
}

// DescribeLog adds a description of the log.
func DescribeLog(p *toolreport.Page, s *accesslog.Stats) {
	if s.Requests == 0 {
		p.Addf("No requests in %s.", lines(s.Lines))
	} else {
		p.Addf("%s requests in %s, from %s to %s (%v). Format: %s.", progress.Grouped(s.Requests), lines(s.Lines),
			s.From.Format(time.DateTime), s.To.Format(time.DateTime), span(s.To.Sub(s.From)), strings.Join(unique(s.Formats), ", "))
	}
	if s.Late > 0 {
		p.Addf("%s out of order by more than --reorder: decided at the time of the request before.", lines(s.Late))
	}
	if s.Bad > 0 {
		p.Addf("%s could not be read (%s):", lines(s.Bad), percent(s.Bad, s.Lines))
		for _, b := range s.BadLines {
			p.Addf("  %v", b)
		}
		if more := s.Bad - int64(len(s.BadLines)); more > 0 {
			p.Addf("  and %s more", progress.Grouped(more))
		}
	}
}

func lines(n int64) string {
	if n == 1 {
		return "1 line"
	}
	return progress.Grouped(n) + " lines"
}

func unique(all []string) (some []string) {
	for _, s := range all {
		if !slices.Contains(some, s) {
			some = append(some, s)
		}
	}
	return some
}

func percent(part, whole int64) string {
	share := 100 * float64(part) / float64(max(1, whole))
	if share > 0 && share < 0.01 {
		return fmt.Sprintf("%.4f %%", share)
	}
	return fmt.Sprintf("%.2f %%", share)
}

func (d *DocumentReport) describe(p *toolreport.Page, requests int64) {
	t := &toolreport.Table{
		Caption: fmt.Sprintf("%s: %s of %s requests denied (%s)", d.Name, progress.Grouped(d.Denied), progress.Grouped(requests), percent(d.Denied, requests)),
		Columns: []string{"rule", "mode", "limits", "requests", "denied", "share", "keys", "keys denied"},
	}
	about := ""
	for i := range d.Rules {
		r := &d.Rules[i]
		if !r.KeysExact {
			about = "≈"
		}
		t.Row(r.Rule, r.Mode, strings.Join(r.Limits, "; "), progress.Grouped(r.Requests), progress.Grouped(r.Denied), percent(r.Denied, r.Requests), about+progress.Grouped(r.Keys), about+progress.Grouped(r.KeysDenied))
	}
	p.Add(t)
	for _, note := range []struct {
		n    int64
		text string
	}{
		{d.Unmatched, "no rule in enforce mode applies"}, {d.Listed, "on the deny list"}, {d.Delayed, "delayed by a leaky bucket"},
		{d.Invalid, "cannot be decided because a value is too long or invalid"},
	} {
		if note.n > 0 {
			p.Addf("Requests, %s: %s.", note.text, progress.Grouped(note.n))
		}
	}
	if len(d.Defaulted) > 0 {
		p.Addf("No entitlements are given, so limits that take their number from them have their default: %s.", strings.Join(d.Defaulted, ", "))
	}
	most := &toolreport.Table{Caption: "Keys denied most", Columns: []string{"rule", "key", "denied"}}
	for i := range d.Rules {
		for _, k := range d.Rules[i].Most {
			most.Row(d.Rules[i].Rule, k.Key, progress.Grouped(k.Requests))
		}
	}
	if len(most.Rows) > 0 {
		p.Add(most)
	}
}

func (r *Report) describeDifference(p *toolreport.Page) {
	d, first, second := r.Difference, r.Documents[0].Name, r.Documents[1].Name
	p.Addf("Denied by both: %s. Only by %s: %s. Only by %s: %s.", progress.Grouped(d.Both), first, progress.Grouped(d.OnlyFirst), second, progress.Grouped(d.OnlySecond))
	t := &toolreport.Table{Caption: "Difference by key", Columns: []string{"denied only by", "rule and key", "requests"}}
	for _, k := range d.FirstByKey {
		t.Row(first, k.Key, progress.Grouped(k.Requests))
	}
	for _, k := range d.SecondByKey {
		t.Row(second, k.Key, progress.Grouped(k.Requests))
	}
	if len(t.Rows) > 0 {
		p.Add(t)
	}
}

func (r *Report) chart() *toolreport.Chart {
	s := &r.Series
	c := &toolreport.Chart{
		Caption: fmt.Sprintf("Requests and denied, per %v", s.Step), Axis: "time",
		From: s.Start.UTC().Format(time.DateTime), To: r.Log.To.UTC().Format(time.DateTime),
		Lines: []toolreport.Line{{Name: "requests"}},
	}
	for _, d := range r.Documents {
		c.Lines = append(c.Lines, toolreport.Line{Name: "denied by " + d.Name})
	}
	for _, b := range s.Counts {
		c.Lines[0].Values = append(c.Lines[0].Values, float64(b.Requests))
		for i := range r.Documents {
			c.Lines[i+1].Values = append(c.Lines[i+1].Values, float64(b.Denied[i]))
		}
	}
	return c
}
