package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// A level is how good a finding is. Programs read the text.
type level string

const (
	levelWell   level = "well"
	levelLook   level = "look"   // works, and is worth a look
	levelWrong  level = "wrong"  // must be changed
	levelUnseen level = "unseen" // nobody here may know
)

// A finding is one thing that was looked at.
type finding struct {
	Section string `json:"section"`
	Check   string `json:"check"`
	At      string `json:"at,omitempty"` // the server it is about, if there are several
	Level   level  `json:"level"`
	Text    string `json:"text"`
	Fix     string `json:"fix,omitempty"`
}

// A Report is what was found, in the order in which it was looked for.
type Report struct {
	findings []finding
	section  string
	at       string
	blind    bool // something could not be looked at at all
}

// begin names what the next findings are about.
func (r *Report) begin(section string) { r.section, r.at = section, "" }

func (r *Report) add(l level, check, fix, format string, args ...any) {
	r.findings = append(r.findings, finding{r.section, check, r.at, l, fmt.Sprintf(format, args...), fix})
}

func (r *Report) well(check, format string, args ...any) {
	r.add(levelWell, check, "", format, args...)
}

func (r *Report) look(check, fix, format string, args ...any) {
	r.add(levelLook, check, fix, format, args...)
}

func (r *Report) wrong(check, fix, format string, args ...any) {
	r.add(levelWrong, check, fix, format, args...)
}

func (r *Report) unseen(check, fix, format string, args ...any) {
	r.add(levelUnseen, check, fix, format, args...)
}

// lost is wrong, and more may be that nobody could see.
func (r *Report) lost(check, fix, format string, args ...any) {
	r.wrong(check, fix, format, args...)
	r.blind = true
}

// An Outcome sums up a report.
type Outcome int

// Outcomes.
const (
	Healthy    Outcome = iota // nothing is wrong
	Unhealthy                 // something is
	Incomplete                // some of it could not be looked at
)

// Outcome sums up the report. If it is strict, what is worth a look or could not be seen is wrong too.
func (r *Report) Outcome(strict bool) Outcome {
	switch {
	case r.blind:
		return Incomplete
	case r.count(levelWrong) > 0, strict && r.count(levelWell) < len(r.findings):
		return Unhealthy
	}
	return Healthy
}

// MarshalJSON writes the findings and how many of each level there are.
func (r *Report) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Findings []finding `json:"findings"`
		Well     int       `json:"well"`
		Look     int       `json:"look"`
		Wrong    int       `json:"wrong"`
		Unseen   int       `json:"unseen"`
	}{r.findings, r.count(levelWell), r.count(levelLook), r.count(levelWrong), r.count(levelUnseen)})
}

func (r *Report) count(l level) (n int) {
	for i := range r.findings {
		if r.findings[i].Level == l {
			n++
		}
	}
	return n
}

var marks = map[level]struct{ sign, colour string }{
	levelWell:   {"✓", "\x1b[32m"},
	levelLook:   {"!", "\x1b[33m"},
	levelWrong:  {"✗", "\x1b[31m"},
	levelUnseen: {"?", "\x1b[36m"},
}

// Print writes the report for people: what is found under its heading, and below it what to do.
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
			fmt.Fprintln(w, printable(heading))
		}
		sign := marks[f.Level].sign
		if colour {
			sign = marks[f.Level].colour + sign + "\x1b[0m"
		}
		fmt.Fprintf(w, "  %s %-*s  %s\n", sign, width, f.Check, printable(f.Text))
		if f.Fix != "" {
			fmt.Fprintf(w, "    %*s  → %s\n", width, "", printable(f.Fix))
		}
	}
	var sums []string
	for _, s := range []struct {
		level level
		text  string
	}{{levelWrong, "wrong"}, {levelLook, "worth a look"}, {levelUnseen, "not seen"}, {levelWell, "well"}} {
		if n := r.count(s.level); n > 0 {
			sums = append(sums, fmt.Sprintf("%d %s", n, s.text))
		}
	}
	fmt.Fprintf(w, "%s\n", strings.Join(sums, ", "))
}

// printable takes out of others' words what would move a terminal's cursor.
func printable(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c >= 0x7f && c < 0xa0 || slices.Contains([]rune{0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068, 0x2069}, c) {
			return ' '
		}
		return c
	}, text)
}
