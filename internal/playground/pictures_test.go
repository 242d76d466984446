package playground_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/playground"
)

const picturesDir = "../../docs/img"

// A picture is a game that the docs show.
type picture struct {
	file, title string
	limits      map[string]string // by the names of the lanes
	order       []string
	arrivals    []float64 // in seconds
	hold        float64
	denied      []int // of each lane, so that the text beside the picture is right
}

const (
	fixed      = `{"rate": "%s", "algorithm": "fixed_window"}`
	slidingLog = `{"rate": "%s", "algorithm": "sliding_window_log"}`
	counter    = `{"rate": "%s", "algorithm": "sliding_window_counter"}`
)

func at(limit, rate string) string { return fmt.Sprintf(limit, rate) }

// edge is a burst of the whole limit at the end of a minute, another at its start, and a few later.
var edge = []float64{55, 56, 57, 58, 59, 61, 62, 63, 64, 65, 90, 105}

var pictures = []picture{
	{"fixed-window", "fixed_window: 5 per minute, which starts again at each full minute",
		map[string]string{"used": at(fixed, "5/1m")}, []string{"used"}, edge, 0, []int{2}},
	{"sliding-window-log", "sliding_window_log: never more than 5 in any 60 s",
		map[string]string{"used": at(slidingLog, "5/1m")}, []string{"used"}, edge, 0, []int{7}},
	{"sliding-window-counter", "sliding_window_counter: this minute and the share of the last one",
		map[string]string{"used": at(counter, "5/1m")}, []string{"used"}, edge, 0, []int{5}},
	{"token-bucket", "token_bucket: 3 per minute, in a bucket of 3",
		map[string]string{"used, refilled all the time": `{"rate": "3/1m", "algorithm": "token_bucket", "burst": 3}`, "used, refilled every minute": `{"rate": "3/1m", "algorithm": "token_bucket", "burst": 3, "refill": "interval"}`},
		[]string{"used, refilled all the time", "used, refilled every minute"}, []float64{0, 20, 40, 50, 60, 130, 130, 130, 130}, 0, []int{1, 2}},
	{"leaky-bucket", "leaky_bucket: one leaves every 15 s, six wait in the queue",
		map[string]string{"in the bucket": `{"rate": "4/1m", "algorithm": "leaky_bucket", "queue": 6}`}, []string{"in the bucket"}, []float64{5, 5, 5, 5, 5, 5, 5, 5, 40, 70, 95}, 0, []int{1}},
	{"concurrency", "concurrency: at most 3 run at once, each for 20 s",
		map[string]string{"running": `{"concurrent": 3, "ttl": "1m"}`}, []string{"running"}, []float64{0, 4, 8, 12, 16, 21, 25, 50, 52}, 20, []int{2}},
	{"three-answers", "The same nine requests under 6 per minute: three algorithms, three answers",
		map[string]string{"fixed_window": at(fixed, "6/1m"), "sliding_window_log": at(slidingLog, "6/1m"), "sliding_window_counter": at(counter, "6/1m")},
		[]string{"fixed_window", "sliding_window_log", "sliding_window_counter"}, []float64{10, 25, 35, 45, 50, 55, 80, 80, 80}, 0, []int{0, 2, 1}},
}

// The pictures of the algorithms show what the engine decides.
func TestPictureOfEachAlgorithmIsCurrent(t *testing.T) {
	for _, p := range pictures {
		game := &playground.Input{Hold: p.hold * 1000}
		for _, name := range p.order {
			game.Lanes = append(game.Lanes, playground.LimitInput{Name: name, Limit: []byte(p.limits[name])})
		}
		for _, s := range p.arrivals {
			game.Arrivals = append(game.Arrivals, playground.Arrival{At: s * 1000})
		}
		played := play(t, game)
		for i, lane := range played.Lanes {
			if lane.Denied != p.denied[i] {
				t.Errorf("%s: %s denies %d, not %d", p.file, lane.Name, lane.Denied, p.denied[i])
			}
		}
		checkPicture(t, "algorithm-"+p.file+".svg", draw(&p, played))
	}
}

const (
	laneHeight, top, left, plotWidth, right = 118, 34, 54, 600, 26
	plotHeight                              = 74
)

// draw draws a lane for each limit: what is used over time, and a mark for each request.
func draw(p *picture, played *playground.Result) string {
	span := played.Span
	for _, lane := range played.Lanes {
		if n := len(lane.Curve); n > 0 {
			span = max(span, lane.Curve[n-1].At)
		}
	}
	x := func(ms float64) float64 { return left + ms/span*plotWidth }
	var b strings.Builder
	width, height := left+plotWidth+right, top+laneHeight*len(played.Lanes)+6
	fmt.Fprintf(&b, pictureHead, width, height, width, height, p.title, left, p.title)
	for i, lane := range played.Lanes {
		bottom := float64(top + laneHeight*i + plotHeight + 14)
		y := func(used int64) float64 {
			return bottom - float64(used)/float64(lane.Limit)*(plotHeight-12)
		}
		fmt.Fprintf(&b, "<text class=\"name\" x=\"%d\" y=\"%.0f\">%s</text>\n", left, bottom-plotHeight+2, label(&lane))
		for s := 0.0; s <= span; s += 60000 {
			fmt.Fprintf(&b, "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/><text class=\"tick\" x=\"%.1f\" y=\"%.1f\">%.0f s</text>\n", x(s), x(s), y(lane.Limit), bottom, x(s), bottom+24, s/1000)
		}
		fmt.Fprintf(&b, "<line class=\"limit\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>\n", left, left+plotWidth, y(lane.Limit), y(lane.Limit))
		fmt.Fprintf(&b, "<text class=\"value\" x=\"%d\" y=\"%.1f\">%d</text><text class=\"value\" x=\"%d\" y=\"%.1f\">0</text>\n", left-8, y(lane.Limit)+4, lane.Limit, left-8, bottom+4)
		fmt.Fprintf(&b, "<path class=\"used\" d=\"%s\"/>\n", outline(&lane, x, y, bottom))
		marks(&b, &lane, x, bottom)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func label(lane *playground.LimitResult) string {
	return fmt.Sprintf("%s: %d allowed, %d denied", lane.Name, lane.Allowed, lane.Denied)
}

// outline is the area below the curve, which steps from one point to the next.
func outline(lane *playground.LimitResult, x func(float64) float64, y func(int64) float64, bottom float64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "M%d %.1f", left, bottom)
	last := bottom
	for _, point := range lane.Curve {
		if here := y(point.Used); here != last {
			fmt.Fprintf(&b, "H%.1fV%.1f", x(point.At), here)
			last = here
		}
	}
	fmt.Fprintf(&b, "H%dV%.1fZ", left+plotWidth, bottom)
	return b.String()
}

// marks draws requests below the plot: a circle for one that passes, with a line to where it leaves if it is held; a
// cross for one that is denied. Requests at the same time stand side by side.
func marks(b *strings.Builder, lane *playground.LimitResult, x func(float64) float64, bottom float64) {
	same := map[float64]int{}
	for _, step := range lane.Steps {
		at := x(step.At) + float64(same[step.At]*9)
		same[step.At]++
		if !step.Allowed {
			fmt.Fprintf(b, "<path class=\"denied\" d=\"M%.1f %.1fl7 7m0 -7l-7 7\"/>\n", at-3.5, bottom+4.5)
			continue
		}
		fmt.Fprintf(b, "<circle class=\"allowed\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"/>\n", at, bottom+8)
		if step.Delay > 0 {
			fmt.Fprintf(b, "<circle class=\"leaves\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>\n", x(step.At+step.Delay), bottom+8)
		}
	}
}

// pictureHead begins a picture. Its colours follow those of the reader's system.
const pictureHead = `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-label="%s" font-family="system-ui, sans-serif" font-size="12">
<style>
text{fill:#1f2328} .title{font-size:14px;font-weight:600} .tick,.value{fill:#656d76;font-size:11px} .tick{text-anchor:middle} .value{text-anchor:end}
.grid{stroke:#d0d7de} .limit{stroke:#cf222e;stroke-dasharray:5 4} .used{fill:#54aeff;fill-opacity:.45;stroke:#0969da} .allowed{fill:#1a7f37} .leaves{fill:none;stroke:#1a7f37} .denied{stroke:#cf222e;stroke-width:2;fill:none}
@media (prefers-color-scheme:dark){text{fill:#e6edf3} .tick,.value{fill:#8d96a0} .grid{stroke:#3d444d} .limit,.denied{stroke:#f85149} .used{fill:#1f6feb;stroke:#4493f8} .allowed{fill:#3fb950} .leaves{stroke:#3fb950}}
</style>
<text class="title" x="%d" y="18">%s</text>
`

// checkPicture compares a picture with the committed one, and writes it under PENSTOCK_TEST_UPDATE.
func checkPicture(t *testing.T, name, want string) {
	t.Helper()
	path := filepath.Join(picturesDir, name)
	if os.Getenv("PENSTOCK_TEST_UPDATE") != "" {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("docs/img/%s is not what is decided: make generate draws it", name)
	}
}
