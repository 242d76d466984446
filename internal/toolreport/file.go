package toolreport

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"os"
	"path/filepath"
	"strings"
)

const style = `body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}
table{border-collapse:collapse;margin:1rem 0}caption{text-align:left;font-weight:600;padding:.3rem 0}
td,th{padding:.2rem .8rem .2rem 0;text-align:left;border-bottom:1px solid #8884}.n{text-align:right;font-variant-numeric:tabular-nums}
pre{padding:.8rem;border:1px solid #8884;overflow-x:auto}figure{margin:1.5rem 0}svg{width:100%;height:auto}`

// CheckName reports a file name whose extension is not a known format.
func CheckName(path string) error {
	if ext := filepath.Ext(path); ext != ".html" && ext != ".svg" {
		return fmt.Errorf("a report is written as .html, or .svg for its charts alone; %q is neither", path)
	}
	return nil
}

// WriteFile writes the page in the format of its extension: .html, or .svg for the charts alone.
func (p *Page) WriteFile(path string) error {
	if err := CheckName(path); err != nil {
		return err
	}
	text := p.HTML()
	if filepath.Ext(path) == ".svg" {
		text = p.svg()
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// HTML returns the page as a self-contained file.
func (p *Page) HTML() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\n<title>%s</title>\n<style>%s</style>\n<h1>%[1]s</h1>\n", html.EscapeString(p.Title), style)
	for _, part := range p.Parts {
		part.html(&b)
	}
	b.WriteString("</html>\n")
	return b.Bytes()
}

func (p *Page) svg() []byte {
	var w bytes.Buffer
	var charts []*Chart
	for _, part := range p.Parts {
		if c, ok := part.(*Chart); ok {
			charts = append(charts, c)
		}
	}
	fmt.Fprintf(&w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d">`+"\n", svgWidth, svgHeight*max(1, len(charts)))
	for i, c := range charts {
		var b strings.Builder
		c.SVG(&b)
		fmt.Fprint(&w, strings.Replace(b.String(), "<svg ", fmt.Sprintf(`<svg y="%d" width="%d" height="%d" `, i*svgHeight, svgWidth, svgHeight), 1))
	}
	fmt.Fprintln(&w, "</svg>")
	return w.Bytes()
}

func (t Text) html(w io.Writer) {
	fmt.Fprintf(w, "<p>%s</p>\n", strings.ReplaceAll(html.EscapeString(string(t)), "\n", "<br>"))
}

func (c Code) html(w io.Writer) { fmt.Fprintf(w, "<pre>%s</pre>\n", html.EscapeString(string(c))) }

func (c *Chart) html(w io.Writer) {
	fmt.Fprintf(w, "<figure><figcaption>%s</figcaption>", html.EscapeString(c.Caption))
	c.SVG(w)
	fmt.Fprintln(w, "</figure>")
}

func (t *Table) html(w io.Writer) {
	fmt.Fprint(w, "<table>")
	if t.Caption != "" {
		fmt.Fprintf(w, "<caption>%s</caption>", html.EscapeString(t.Caption))
	}
	right := t.numeric()
	cells := func(tag string, row []string) {
		fmt.Fprint(w, "<tr>")
		for i, cell := range row {
			class := ""
			if right[i] {
				class = ` class="n"`
			}
			fmt.Fprintf(w, "<%s%s>%s</%[1]s>", tag, class, html.EscapeString(cell))
		}
		fmt.Fprintln(w, "</tr>")
	}
	cells("th", t.Columns)
	for _, row := range t.Rows {
		cells("td", row)
	}
	fmt.Fprintln(w, "</table>")
}
