package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/penstock-io/penstock/internal/spelling"
)

// A level is the result of a check, as in -o json.
type level string

const (
	levelOK      level = "ok"
	levelWarn    level = "warn"    // works, but should be checked
	levelFail    level = "fail"    // must be changed
	levelUnknown level = "unknown" // cannot be checked from here
)

// A finding is the result of one check.
type finding struct {
	Section string `json:"section"`
	Check   string `json:"check"`
	At      string `json:"at,omitempty"` // the server it is about, if there are several
	Level   level  `json:"level"`
	Text    string `json:"text"`
	Fix     string `json:"fix,omitempty"`
}

// A Report is the results of all checks, in the order in which they ran.
type Report struct {
	findings   []finding
	section    string
	at         string
	incomplete bool // a section could not be checked at all
}

// begin starts a section of findings.
func (r *Report) begin(section string) { r.section, r.at = section, "" }

func (r *Report) add(l level, check, fix, format string, args ...any) {
	r.findings = append(r.findings, finding{r.section, check, r.at, l, fmt.Sprintf(format, args...), fix})
}

func (r *Report) ok(check, format string, args ...any) {
	r.add(levelOK, check, "", format, args...)
}

func (r *Report) warn(check, fix, format string, args ...any) {
	r.add(levelWarn, check, fix, format, args...)
}

func (r *Report) fail(check, fix, format string, args ...any) {
	r.add(levelFail, check, fix, format, args...)
}

func (r *Report) unknown(check, fix, format string, args ...any) {
	r.add(levelUnknown, check, fix, format, args...)
}

// block is fail for a finding that prevents further checks.
func (r *Report) block(check, fix, format string, args ...any) {
	r.fail(check, fix, format, args...)
	r.incomplete = true
}

// An Outcome sums up a report.
type Outcome int

// Outcomes.
const (
	Healthy    Outcome = iota // nothing is wrong
	Unhealthy                 // something is
	Incomplete                // something could not be checked
)

// Outcome sums up the report. If strict is set, warnings and unknown results count as failures.
func (r *Report) Outcome(strict bool) Outcome {
	switch {
	case r.incomplete:
		return Incomplete
	case r.count(levelFail) > 0, strict && r.count(levelOK) < len(r.findings):
		return Unhealthy
	}
	return Healthy
}

// MarshalJSON writes the findings and the number of findings at each level.
func (r *Report) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Findings []finding `json:"findings"`
		OK       int       `json:"ok"`
		Warn     int       `json:"warn"`
		Fail     int       `json:"fail"`
		Unknown  int       `json:"unknown"`
	}{r.findings, r.count(levelOK), r.count(levelWarn), r.count(levelFail), r.count(levelUnknown)})
}

func (r *Report) count(l level) (n int) {
	for i := range r.findings {
		if r.findings[i].Level == l {
			n++
		}
	}
	return n
}

var marks = map[level]struct{ sign, colour, summary string }{
	levelOK:      {"✓", "\x1b[32m", "ok"},
	levelWarn:    {"!", "\x1b[33m", "warnings"},
	levelFail:    {"✗", "\x1b[31m", "failed"},
	levelUnknown: {"?", "\x1b[36m", "unknown"},
}

// Print writes the report for people: each finding under its heading, with what to do about it.
func (r *Report) Print(w io.Writer, colour bool) {
	width := 0
	for i := range r.findings {
		width = max(width, len(r.findings[i].Check))
	}
	heading := ""
	for i := range r.findings {
		f := &r.findings[i]
		if h := strings.TrimSpace(f.Section + " " + f.At); h != heading {
			heading = h
			fmt.Fprintln(w, spelling.Printable(heading))
		}
		sign := marks[f.Level].sign
		if colour {
			sign = marks[f.Level].colour + sign + "\x1b[0m"
		}
		fmt.Fprintf(w, "  %s %-*s  %s\n", sign, width, f.Check, spelling.Printable(f.Text))
		if f.Fix != "" {
			fmt.Fprintf(w, "    %*s  → %s\n", width, "", spelling.Printable(f.Fix))
		}
	}
	var sums []string
	for _, l := range []level{levelFail, levelWarn, levelUnknown, levelOK} {
		if n := r.count(l); n > 0 {
			sums = append(sums, fmt.Sprintf("%d %s", n, marks[l].summary))
		}
	}
	fmt.Fprintf(w, "%s\n", strings.Join(sums, ", "))
}
