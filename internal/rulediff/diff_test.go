package rulediff_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/rulediff"
	"github.com/penstock-io/penstock/rules"
)

const before = `attributes: {user: {header: X-User}}
rules:
  - {name: a, key: [user], limits: [1/1m]}
  - {name: b, key: [user], limits: [1/1m]}
lists: {deny: [{user: x}]}
`

func TestDiff(t *testing.T) {
	for name, test := range map[string]struct {
		after string
		want  []string
	}{
		"the same":       {before, nil},
		"a comment":      {before + "# more\n", nil},
		"a limit":        {strings.Replace(before, "1/1m", "2/1m", 1), []string{"change rule a limits [1/1m] [2/1m]"}},
		"the order":      {strings.NewReplacer("name: a", "name: b", "name: b", "name: a").Replace(before), []string{"change order "}},
		"a rule less":    {strings.Replace(before, "  - {name: b, key: [user], limits: [1/1m]}\n", "", 1), []string{"remove rule b"}},
		"a rule more":    {strings.Replace(before, "lists", "  - {name: c, key: [], limits: [1/1m]}\nlists", 1), []string{"add rule c"}},
		"an attribute":   {strings.Replace(before, "X-User", "X-Name", 1), []string{"change attribute user from {header: X-User} {header: X-Name}"}},
		"path matching":  {"path_matching: express\n" + before, []string{"change path_matching  servers  express"}},
		"another denied": {strings.Replace(before, "{user: x}", "{user: y}", 1), []string{"add deny ", "remove deny "}},
	} {
		d, err := rulediff.Of(t.Context(), fileOf("old", before), fileOf("new", test.after))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, c := range d.Changes {
			text := fmt.Sprintf("%s %s %s", c.Op, c.Kind, c.Name)
			for _, f := range c.Fields {
				text += fmt.Sprintf(" %s %s %s", f.Field, f.From, f.To)
			}
			got = append(got, text)
		}
		if !slices.Equal(got, test.want) || d.Same != (test.after == before) || (d.Text == "") != (test.after == before) {
			t.Errorf("%s: %q, same %v\n%s", name, got, d.Same, d.Text)
		}
	}
	if _, err := rulediff.Of(t.Context(), fileOf("old", before), fileOf("new", "rules: [{nmae: x}]")); err == nil {
		t.Error("rules with mistakes were compared")
	}
}

func fileOf(name, text string) []rules.File { return []rules.File{{Name: name, Data: []byte(text)}} }
