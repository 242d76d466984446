package penstock_test

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"
)

var hopText = regexp.MustCompile(`(?m)^(\d+)\. (.*)$`)

// The pictures of the flows show the steps that docs/ARCHITECTURE.md names, whose functions are checked to exist.
func TestPictureOfEachFlowIsCurrent(t *testing.T) {
	_, sections := architecture(t)
	for file, title := range map[string]string{"flow-request": "The path of a request", "flow-rule": "The path of a rule"} {
		hops := hopText.FindAllStringSubmatch(sections[title], -1)
		if len(hops) < 5 {
			t.Errorf("%s has %d steps", title, len(hops))
		}
		checkGenerated(t, "docs/img/"+file+".svg", drawFlow(title, hops))
	}
}

const (
	flowWidth, flowRow, flowTop = 760, 54, 44
)

// drawFlow draws a box for each step, from top to bottom: what happens, and the functions that do it.
func drawFlow(title string, hops [][]string) string {
	height := flowTop + flowRow*len(hops) + 4
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-label="%s" font-family="system-ui, sans-serif" font-size="13">
<style>
text{fill:#1f2328} .title{font-size:15px;font-weight:600} .box{fill:#f6f8fa;stroke:#d0d7de} .number{fill:#0969da;font-weight:600;text-anchor:middle} .code{font-family:ui-monospace,monospace;font-size:11px;fill:#656d76} .arrow{stroke:#656d76;fill:none}
@media (prefers-color-scheme:dark){text{fill:#e6edf3} .box{fill:#161b22;stroke:#3d444d} .number{fill:#4493f8} .code{fill:#8d96a0} .arrow{stroke:#8d96a0}}
</style>
<text class="title" x="10" y="24">%s</text>
`, flowWidth, height, flowWidth, height, title, title)
	for i, m := range hops {
		y := flowTop + flowRow*i
		text, _, _ := strings.Cut(m[2], ": `")
		var functions []string
		for _, f := range placed.FindAllStringSubmatch(m[2], -1) {
			functions = append(functions, f[1])
		}
		fmt.Fprintf(&b, "<rect class=\"box\" x=\"10\" y=\"%d\" width=\"%d\" height=\"42\" rx=\"6\"/><text class=\"number\" x=\"30\" y=\"%d\">%s</text>\n", y, flowWidth-20, y+26, m[1])
		fmt.Fprintf(&b, "<text x=\"52\" y=\"%d\">%s</text><text class=\"code\" x=\"52\" y=\"%d\">%s</text>\n", y+18, html.EscapeString(strings.ReplaceAll(text, "`", "")), y+34, html.EscapeString(strings.Join(functions, " · ")))
		if i+1 < len(hops) {
			fmt.Fprintf(&b, "<path class=\"arrow\" d=\"M30 %dv10m-3 -4l3 4l3 -4\"/>\n", y+43)
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}
