package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
)

// A Goal is a target for a figure. It is not met if nothing was measured.
type Goal struct {
	Name     string
	Bound    Bound
	Want     float64
	Measured float64
	Unit     string // after the figure: "×", "%", " ms"
}

// A Bound is the side of the wanted figure on which a goal is met.
type Bound string

const (
	AtLeast Bound = "≥"
	AtMost  Bound = "≤"
	Below   Bound = "<"
)

// Met reports whether the measured figure is on the right side.
func (g Goal) Met() bool {
	switch g.Bound {
	case AtLeast:
		return g.Measured >= g.Want
	case AtMost:
		return g.Measured <= g.Want
	case Below:
		return g.Measured < g.Want
	}
	return false
}

// Verdict is "met", "not met", or "not measured".
func (g Goal) Verdict() string {
	switch {
	case math.IsNaN(g.Measured):
		return "not measured"
	case g.Met():
		return "met"
	}
	return "not met"
}

type jsonGoal struct {
	Name     string   `json:"name"`
	Bound    Bound    `json:"bound"`
	Want     float64  `json:"want"`
	Measured *float64 `json:"measured"`
	Unit     string   `json:"unit"`
	Verdict  string   `json:"verdict"`
}

// MarshalJSON adds the verdict.
func (g Goal) MarshalJSON() ([]byte, error) {
	return json.Marshal(jsonGoal{g.Name, g.Bound, g.Want, present(g.Measured), g.Unit, g.Verdict()})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (g *Goal) UnmarshalJSON(text []byte) error {
	var in jsonGoal
	err := json.Unmarshal(text, &in)
	*g = Goal{in.Name, in.Bound, in.Want, orAbsent(in.Measured), in.Unit}
	return err
}

// Count returns how many of the goals are met.
func Count(goals []Goal) (met int) {
	for _, g := range goals {
		if g.Verdict() == "met" {
			met++
		}
	}
	return met
}

// WriteGoals writes a table of goals.
func WriteGoals(w io.Writer, goals []Goal) {
	lines := [][]string{{"goal", "wanted", "measured", ""}}
	for _, g := range goals {
		lines = append(lines, []string{g.Name, fmt.Sprintf("%s %s%s", g.Bound, Figure(g.Want), g.Unit), Figure(g.Measured) + g.Unit, g.Verdict()})
	}
	Align(w, lines)
}
