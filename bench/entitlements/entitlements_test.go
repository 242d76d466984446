package entitlements

import "testing"

func TestMeasure(t *testing.T) {
	s, err := Measure(t.Context(), Options{Rows: 200, Changes: 1})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Tables) != 1 || len(s.Tables[0].Rows) != 2 {
		t.Fatalf("%+v", s.Tables)
	}
	for _, row := range s.Tables[0].Rows {
		for _, column := range []int{importing, loading, lookup} {
			if !(row.Values[column] > 0) {
				t.Errorf("%s, %s: %v", row.Name, s.Tables[0].Columns[column].Name, row.Values[column])
			}
		}
	}
}
