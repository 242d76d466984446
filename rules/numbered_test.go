package rules

import (
	"fmt"
	"testing"

	"github.com/penstock-io/penstock/storage"
)

// checkNumbered finds every rule by its number, as reservations do, and nothing by another.
func checkNumbered(t *testing.T, s *Snapshot) {
	t.Helper()
	for _, r := range s.Rules {
		if got := s.Numbered(r.Subjects.Number()); got != r {
			t.Fatalf("%s: by its number found %+v", r.Name, got)
		}
	}
	if got := s.Numbered(s.Rules[0].Subjects.Number() + 1); got != nil {
		t.Errorf("found %s by a number that no rule has", got.Name)
	}
}

// Numbers distinguish as many rules as a document may have, including those with the same name: another key or
// domain makes another rule. TestManyRules looks them up.
func TestNumbersTellRulesApart(t *testing.T) {
	hasher := storage.NewHasher("s")
	seen := map[uint64]string{}
	for i := range 100_000 {
		name := fmt.Sprint("rule-", i)
		for _, rule := range []storage.RuleHasher{hasher.Rule("default", name, "ip"), hasher.Rule("default", name, "id"), hasher.Rule("d", name, "ip")} {
			if other, taken := seen[rule.Number()]; taken {
				t.Fatalf("%s has the number of %s", name, other)
			}
			seen[rule.Number()] = name
		}
	}
}
