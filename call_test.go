package penstock

import "testing"

func TestCallAttribute(t *testing.T) {
	c := Call{Attributes: []Attribute{{Name: "user", Value: "ann"}, {Name: "plan"}}}
	for _, test := range []struct {
		name, value string
		ok          bool
	}{{"user", "ann", true}, {"plan", "", true}, {"ip", "", false}} {
		if v, ok := c.Attribute(test.name); v != test.value || ok != test.ok {
			t.Errorf("%s: %q, %v", test.name, v, ok)
		}
	}
}
