package toolreport

import (
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func page() *Page {
	p := &Page{Title: "A <title>"}
	p.Addf("%d requests", 3)
	p.Add(Text("and more"))
	t := &Table{Caption: "Rules", Columns: []string{"rule", "denied"}}
	t.Row("login & more", 12)
	t.Row("é", 7)
	p.Add(t, &Chart{Caption: "Denied", Axis: "time", From: "9:00", To: "10:00", Lines: []Line{{"denied", []float64{0, 1, 4, 2, 30}}}}, Code("a:\n  b\n"))
	return p
}

func TestText(t *testing.T) {
	var b strings.Builder
	if err := page().WriteText(&b); err != nil {
		t.Fatal(err)
	}
	want := `A <title>
3 requests
and more

Rules
  RULE          DENIED
  login & more      12
  é                  7

Denied
`
	if got := b.String(); !strings.HasPrefix(got, want) || !strings.Contains(got, "\n   30 ┤") || !strings.HasSuffix(got, "  time: 9:00 to 10:00\n\n    a:\n      b\n") {
		t.Errorf("got:\n%s", got)
	}
	if err := page().WriteText(failing{}); err == nil {
		t.Error("a failed write is not told")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// Files are well formed whatever names they contain, and no peak is lost.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.html", "a.svg"} {
		path := filepath.Join(dir, name)
		if err := page().WriteFile(path); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if name == "a.html" {
			if !strings.Contains(string(text), "<h1>A &lt;title&gt;</h1>") || !strings.Contains(string(text), "<td>login &amp; more</td><td class=\"n\">12</td>") {
				t.Errorf("%s", text)
			}
			continue
		}
		for d := xml.NewDecoder(strings.NewReader(string(text))); ; {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
		}
	}
	if err := page().WriteFile("a.pdf"); err == nil || !strings.Contains(err.Error(), `"a.pdf" is neither`) {
		t.Error(err)
	}
	if got := resample([]float64{1, 9, 1, 1}, 2); got[0] != 9 || got[1] != 1 {
		t.Error(got)
	}
}
