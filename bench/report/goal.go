package report

import (
	"fmt"
	"io"
	"math"
)

// A Goal is a target for a figure. It is not met if nothing was measured.
type Goal struct {
	Name     string  `json:"name"`
	Bound    string  `json:"bound"` // the side of the wanted figure on which the goal is met
	Want     float64 `json:"want"`
	Measured Value   `json:"measured"`
	Unit     string  `json:"unit"` // after the figure: "×", "%", " ms"
	Verdict  string  `json:"verdict"`
}

// AtLeast returns a goal for a figure that should be high.
func AtLeast(name string, want, measured float64, unit string) Goal {
	return goal(name, "≥", want, measured, unit, measured >= want)
}

// AtMost returns a goal for a figure that should be low.
func AtMost(name string, want, measured float64, unit string) Goal {
	return goal(name, "≤", want, measured, unit, measured <= want)
}

// Below returns a goal for a figure that should be lower than the wanted one.
func Below(name string, want, measured float64, unit string) Goal {
	return goal(name, "<", want, measured, unit, measured < want)
}

func goal(name, bound string, want, measured float64, unit string, met bool) Goal {
	g := Goal{name, bound, want, Value(measured), unit, "not met"}
	switch {
	case math.IsNaN(measured):
		g.Verdict = "not measured"
	case met:
		g.Verdict = "met"
	}
	return g
}

// Count returns how many of the goals are met.
func Count(goals []Goal) (met int) {
	for _, g := range goals {
		if g.Verdict == "met" {
			met++
		}
	}
	return met
}

// WriteGoals writes a table of goals.
func WriteGoals(w io.Writer, goals []Goal) {
	lines := [][]string{{"goal", "wanted", "measured", ""}}
	for _, g := range goals {
		lines = append(lines, []string{g.Name, fmt.Sprintf("%s %s%s", g.Bound, Figure(g.Want), g.Unit), Figure(float64(g.Measured)) + g.Unit, g.Verdict})
	}
	Align(w, lines)
}
