package fleet

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/membership"
	"github.com/penstock-io/penstock/internal/traffic"
)

// An answer is expected from a node that was asked, until it has answered.
func TestExpectedAnswers(t *testing.T) {
	node := func(id string, self bool) membership.KnownNode {
		return membership.KnownNode{ID: id, Self: self, Node: &membership.Node{Name: id}, Heard: time.Now()}
	}
	var f *Fleet
	sent := 0
	f = New(Options{
		Traffic: traffic.New(), Problem: func() error { return nil },
		Members: func() []membership.KnownNode {
			return []membership.KnownNode{node("A", true), node("B", false), node("C", false)}
		},
		Send: func(_ context.Context, _, answers string, text []byte) error {
			sent++
			var m message
			if err := json.Unmarshal(text, &m); err != nil || answers != "" {
				t.Errorf("a question that answers %q: %v", answers, err)
			}
			for _, from := range []string{"B", "C"} {
				answer, _ := json.Marshal(&message{Number: m.Number, Answer: &answer{}})
				for _, expected := range []bool{true, false, false} {
					if f.Expects(from, m.Number) != expected {
						t.Errorf("an answer of %s is expected: %v", from, !expected)
					}
					f.Receive(from, answer)
				}
			}
			if f.Expects("B", "another") {
				t.Error("an answer to nothing is expected")
			}
			return nil
		},
	})
	defer f.Close()
	if all := f.Count(t.Context(), traffic.Last(time.Now(), time.Minute), ""); sent != 1 || len(all.Nodes) != 3 || !all.Nodes[1].Answered || !all.Nodes[2].Answered {
		t.Errorf("%d questions, nodes %+v", sent, all.Nodes)
	}
}
