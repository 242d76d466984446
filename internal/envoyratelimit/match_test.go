package envoyratelimit

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/penstock-io/penstock"
)

// A modelDescriptor is a descriptor in the model of the test.
type modelDescriptor struct {
	key, value string
	limit      int // 0: none
	below      []modelDescriptor
}

// A grower makes random trees. Keys belong to a depth, so that their order is always the same.
type grower struct {
	*rand.Rand
	keys   [][]string
	values []string
}

func (g *grower) grow(depth int) (level []modelDescriptor) {
	if depth == len(g.keys) {
		return nil
	}
	taken := map[string]bool{}
	for range g.IntN(5) {
		d := modelDescriptor{key: pick(g.Rand, g.keys[depth]), value: pick(g.Rand, g.values)}
		if taken[d.key+"="+d.value] {
			continue
		}
		taken[d.key+"="+d.value] = true
		if g.IntN(4) > 0 {
			d.limit = 1 + g.IntN(3)
		}
		d.below = g.grow(depth + 1)
		level = append(level, d)
	}
	return level
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

func yaml(b *strings.Builder, level []modelDescriptor, indent string) {
	if len(level) > 0 {
		b.WriteString(indent + "descriptors:\n")
	}
	for _, d := range level {
		fmt.Fprintf(b, "%s  - key: %s\n", indent, d.key)
		if d.value != "" {
			fmt.Fprintf(b, "%s    value: '%s'\n", indent, d.value)
		}
		if d.limit > 0 {
			fmt.Fprintf(b, "%s    rate_limit: {unit: hour, requests_per_unit: %d}\n", indent, d.limit)
		}
		yaml(b, d.below, indent+"    ")
	}
}

// naive finds the path of the limit for some entries, in the most literal way.
func naive(level []modelDescriptor, path string, entries []penstock.Attribute) string {
	fitting := []func(d *modelDescriptor, value string) bool{
		func(d *modelDescriptor, value string) bool { return d.value != "" && d.value == value },
		func(d *modelDescriptor, value string) bool {
			quoted := strings.ReplaceAll(regexp.QuoteMeta(d.value), `\*`, "(?s:.*)")
			return strings.Contains(d.value, "*") && regexp.MustCompile("^"+quoted+"$").MatchString(value)
		},
		func(d *modelDescriptor, _ string) bool { return d.value == "" },
	}
	for _, fits := range fitting {
		for i := range level {
			d := &level[i]
			if d.key != entries[0].Name || !fits(d, entries[0].Value) {
				continue
			}
			path += "." + d.key
			if d.value != "" {
				path += "_" + d.value
			}
			switch {
			case len(entries) > 1:
				return naive(d.below, path, entries[1:])
			case d.limit > 0:
				return path
			}
			return ""
		}
	}
	return ""
}

func TestMatchAgainstNaive(t *testing.T) {
	g := &grower{
		Rand: rand.New(rand.NewPCG(1, 2)), keys: [][]string{{"a", "b"}, {"a", "b"}, {"a", "b"}},
		values: []string{"", "x", "y", "*", "x*", "*y", "x*y", "*x*", "x*y*x"},
	}
	asked := []string{"", "x", "y", "xy", "x-y", "yx", "xyx", "x*y", "*", "z"}
	found := 0
	for range 300 {
		tree := g.grow(0)
		var text strings.Builder
		text.WriteString("domain: d\n")
		yaml(&text, tree, "")
		c, _, err := Load(file1(text.String()), Options{})
		if err != nil {
			t.Fatalf("%v\n%s", err, text.String())
		}
		for range 100 {
			var ask []penstock.Attribute
			for range 1 + g.IntN(4) {
				ask = append(ask, penstock.Attribute{Name: pick(g.Rand, []string{"a", "a", "b", "c"}), Value: pick(g.Rand, asked)})
			}
			want, got := naive(tree, "d", ask), ""
			if l := c.find("d", ask); l != nil {
				got = l.path
				found++
			}
			if got != want {
				t.Fatalf("%v: got %q, want %q\n%s", ask, got, want, text.String())
			}
		}
	}
	if found < 1000 {
		t.Errorf("only %d of 30000 had a limit: the test is not worth much", found)
	}
}

func TestWildcards(t *testing.T) {
	for _, c := range []struct {
		pattern, value string
		want           bool
	}{
		{"*", "", true}, {"a*", "a", true}, {"*a", "a", true}, {"a*a", "a", false}, {"a*a", "aa", true},
		{"a*b*c", "a-b-c", true}, {"a*b*c", "acb", false}, {"*b*b*", "abab", true}, {"*b*b*", "aba", false},
		{"a**c", "ac", true}, {"a*", "b", false}, {"a*bc*c", "abc", false}, {"a*", "a\nb", true},
	} {
		if got := fits(c.pattern, c.value); got != c.want {
			t.Errorf("%q and %q: got %v", c.pattern, c.value, got)
		}
	}
}
