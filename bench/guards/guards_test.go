package guards

import (
	"os"
	"testing"
	"time"
)

func TestMeasure(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	s, err := Measure(t.Context(), Options{Keys: 20_000, Cell: 10 * time.Millisecond, Repeat: 1, Stderr: null})
	if err != nil {
		t.Fatal(err)
	}
	bytes := &s.Tables[0]
	for _, row := range bytes.Rows {
		for c, v := range row.Values {
			if !(v > 0) {
				t.Errorf("%s weighs %v in %s", row.Name, v, bytes.Columns[c].Name)
			}
		}
	}
	if one, more := bytes.Value(plain, 1), bytes.Value("with an id", 1); more <= one {
		t.Errorf("a call with an id takes %v bytes in Redis, one without %v: the record was not weighed", more, one)
	}
}
