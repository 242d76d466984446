package suggest

import (
	"fmt"
	"strings"
	"time"

	"github.com/penstock-io/penstock/internal/backtest"
	"github.com/penstock-io/penstock/internal/progress"
	"github.com/penstock-io/penstock/internal/toolreport"
)

// yaml returns the limit as a rule to apply, in shadow mode.
func (o *Options) yaml(limit limitTerms) string {
	var b strings.Builder
	b.WriteString("rules:\n  - name: suggested\n")
	var match []string
	if o.Method != "" {
		match = append(match, "method: "+o.Method)
	}
	if o.Path != "" {
		match = append(match, fmt.Sprintf("path: %q", o.Path))
	}
	if len(match) > 0 {
		fmt.Fprintf(&b, "    match: {%s}\n", strings.Join(match, ", "))
	}
	burst := ""
	if limit.Burst > 0 {
		burst = fmt.Sprintf(", burst: %d", limit.Burst)
	}
	fmt.Fprintf(&b, "    key: [%s]\n    limits: [{rate: %s, algorithm: %s%s}]\n    mode: shadow\n", strings.Join(o.Key, ", "), limit.Rate, limit.Algorithm, burst)
	return b.String()
}

func (o *Options) target() string {
	var parts []string
	if o.MaxDenied >= 0 {
		parts = append(parts, fmt.Sprintf("%v %% of requests", 100*o.MaxDenied))
	}
	if o.MaxKeys >= 0 {
		parts = append(parts, fmt.Sprintf("%v %% of keys", 100*o.MaxKeys))
	}
	return strings.Join(parts, " and ")
}

// Page returns the result for people.
func (r *Result) Page() *toolreport.Page {
	o := r.options
	p := &toolreport.Page{Title: "Suggested limit"}
	backtest.DescribeLog(p, &r.Log)
	first := &r.Limits[0]
	p.Addf("By [%s], %s is the smallest %s that denies at most %s.", strings.Join(o.Key, ", "), first.Text, first.Algorithm, o.target())
	if !r.Cut.IsZero() {
		verdict := "It holds on the rest"
		if !first.Holds {
			verdict = "It does NOT hold on the rest: traffic has changed, choose a larger limit or a longer log"
		}
		p.Addf("It was found on the requests before %s. %s: %s.", r.Cut.Format(time.DateTime), verdict, first.HeldOut)
	}
	t := &toolreport.Table{Caption: "The smallest limits that do, and alternatives", Columns: []string{"algorithm", "limit", "requests denied", "keys denied", "held out requests denied", "keys denied", "holds"}}
	for i := range r.Limits {
		f := &r.Limits[i]
		row := []any{f.Algorithm, f.Text, share(f.Fitted.Denied, f.Fitted.Requests), share(f.Fitted.KeysDenied, f.Fitted.Keys), "–", "–", "–"}
		if f.HeldOut != nil {
			row[4], row[5], row[6] = share(f.HeldOut.Denied, f.HeldOut.Requests), share(f.HeldOut.KeysDenied, f.HeldOut.Keys), map[bool]string{true: "yes", false: "no"}[f.Holds]
		}
		t.Row(row...)
	}
	p.Add(t)
	r.addCurve(p)
	p.Add(toolreport.Text("Apply it in shadow mode, and see what it would deny before it does:"), toolreport.Code(r.Rule))
	return p
}

func (r *Result) addCurve(p *toolreport.Page) {
	t := &toolreport.Table{Caption: fmt.Sprintf("What other counts do (%s per %s)", r.Limits[0].Algorithm, r.Limits[0].Window), Columns: []string{"limit", "requests denied", "keys denied"}}
	c := &toolreport.Chart{Caption: "Share denied, in %, by limit (not to scale)", Axis: "limit", Lines: []toolreport.Line{{Name: "requests"}, {Name: "keys"}}}
	for _, point := range r.Curve {
		t.Row(progress.Grouped(point.Count), share(point.Denied, point.Requests), share(point.KeysDenied, point.Keys))
		c.Marks = append(c.Marks, progress.Grouped(point.Count))
		c.Lines[0].Values = append(c.Lines[0].Values, percent(point.Denied, point.Requests))
		c.Lines[1].Values = append(c.Lines[1].Values, percent(point.KeysDenied, point.Keys))
		if point.Denied == 0 {
			break
		}
	}
	p.Add(t, c)
}

func percent(part, whole int64) float64 { return 100 * float64(part) / float64(max(1, whole)) }

func share(part, whole int64) string {
	return fmt.Sprintf("%.3f %% (%s)", percent(part, whole), progress.Grouped(part))
}

func (c *Counts) String() string {
	return fmt.Sprintf("%s of requests and %s of keys denied", share(c.Denied, c.Requests), share(c.KeysDenied, c.Keys))
}
