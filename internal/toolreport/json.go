package toolreport

import "encoding/json"

func (Text) kind() string   { return "text" }
func (Code) kind() string   { return "code" }
func (*Table) kind() string { return "table" }
func (*Chart) kind() string { return "chart" }

// MarshalJSON returns the title and the parts, for a program that shows the page itself. Each part is an object with
// one field, text, code, table or chart.
func (p *Page) MarshalJSON() ([]byte, error) {
	parts := make([]map[string]Part, len(p.Parts))
	for i, part := range p.Parts {
		if t, ok := part.(*Table); ok && t.Rows == nil {
			t.Rows = [][]string{} // not null
		}
		parts[i] = map[string]Part{part.kind(): part}
	}
	return json.Marshal(map[string]any{"title": p.Title, "parts": parts})
}
