package main

import (
	"bytes"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The ranks of the interval, counted from 1, are in every table of the sign test.
func TestMedianInterval(t *testing.T) {
	for n, want := range map[int]interval{
		6: {1, 3.5, 6}, 8: {1, 4.5, 8}, 9: {2, 5, 8}, 10: {2, 5.5, 9}, 12: {3, 6.5, 10}, 20: {6, 10.5, 15}, 25: {8, 13, 18}, 100: {40, 50.5, 61},
	} {
		values := make([]float64, n)
		for i := range values {
			values[i] = float64(i + 1)
		}
		rand.New(rand.NewPCG(1, 2)).Shuffle(n, func(i, j int) { values[i], values[j] = values[j], values[i] })
		before := slices.Clone(values)
		if got := medianInterval(values); got != want {
			t.Errorf("%d values: %v, want %v", n, got, want)
		}
		if !slices.Equal(values, before) {
			t.Error("the values are sorted in place, so pairs are lost")
		}
	}
	if got := tail(6, 0); math.Abs(got-1.0/64) > 1e-12 {
		t.Errorf("%v, want 1/64", got)
	}
}

// Of invented samples with a skewed distribution, 95 % of the intervals or more contain its median.
func TestIntervalContainsTheMedian(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{minPairs, 11, 20} {
		contained := 0
		const trials = 4000
		for range trials {
			values := make([]float64, n)
			for i := range values {
				values[i] = random.ExpFloat64()
			}
			if got := medianInterval(values); got.low <= math.Ln2 && math.Ln2 <= got.high {
				contained++
			}
		}
		if share := float64(contained) / trials; share < 0.945 || share > 0.992 {
			t.Errorf("%d values: %.3f of the intervals contain the median", n, share)
		}
	}
}

func TestJudge(t *testing.T) {
	for i, want := range map[interval]verdict{
		{1.03, 1.05, 1.09}: slower, {1.02, 1.03, 1.04}: unclear, {0.99, 1, 1.02}: within, {0.99, 1, 1.03}: unclear,
		{0.90, 0.92, 0.97}: faster, {0.90, 0.95, 0.99}: within, {0.5, 1, 2}: unclear,
	} {
		if got := judge(i, 1.02); got != want {
			t.Errorf("%v: %s, want %s", i, got, want)
		}
	}
}

// Invented samples give the status and the verdicts.
func TestTable(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for name, test := range map[string]struct {
		change, again float64 // ratios to the base
		spread        float64
		status        int
		verdict       string
	}{
		"same":           {1, 1, 0.01, 0, "within noise"},
		"exactly zero":   {1, 1, 0, 0, "within noise"},
		"slower":         {1.06, 1, 0.01, 1, "slower"},
		"faster":         {0.9, 1, 0.01, 0, "faster"},
		"noisy":          {1, 1, 0.3, 3, "unclear"},
		"control fails":  {1.06, 1.06, 0.01, 3, "unclear: the control is slower"},
		"control faster": {1, 0.9, 0.01, 3, "unclear: the control is faster"},
	} {
		m := &measurements{names: []string{"BenchmarkX"}, base: map[string][]float64{}, change: map[string][]float64{}, again: map[string][]float64{}}
		for range 20 {
			noisy := func(ratio float64) float64 { return 100 * ratio * math.Exp(test.spread*random.NormFloat64()) }
			base := noisy(1)
			if name == "exactly zero" {
				base = 0
			}
			m.base["BenchmarkX"] = append(m.base["BenchmarkX"], base)
			m.change["BenchmarkX"] = append(m.change["BenchmarkX"], base/100*noisy(test.change))
			m.again["BenchmarkX"] = append(m.again["BenchmarkX"], base/100*noisy(test.again))
		}
		var out bytes.Buffer
		status := m.print(&out, 1.02)
		if status != test.status || !strings.HasSuffix(out.String(), "  "+test.verdict+"\n") {
			t.Errorf("%s: status %d, want %d, and %s\n%s", name, status, test.status, test.verdict, out.String())
		}
	}
	// One slower benchmark decides, whatever the others are.
	m := &measurements{names: []string{"A", "B", "C"}, base: map[string][]float64{}, change: map[string][]float64{}, again: map[string][]float64{}}
	for i := range 6 {
		for _, name := range m.names {
			m.base[name], m.again[name] = append(m.base[name], 10), append(m.again[name], 10)
		}
		m.change["A"], m.change["B"], m.change["C"] = append(m.change["A"], 11), append(m.change["B"], float64(8+i)), append(m.change["C"], 10)
	}
	var out bytes.Buffer
	if status := m.print(&out, 1.02); status != 1 {
		t.Errorf("status %d, want 1\n%s", status, out.String())
	}
}

// Every build is first, second and third equally often.
func TestOrder(t *testing.T) {
	var counts [3][3]int
	for pair := range 6 {
		for position, build := range order(pair) {
			counts[build][position]++
		}
	}
	if counts != [3][3]int{{2, 2, 2}, {2, 2, 2}, {2, 2, 2}} {
		t.Error(counts)
	}
}

func TestParseResults(t *testing.T) {
	output := "goos: linux\nBenchmarkA-2   \t 1000\t  12.5 ns/op\t 3 B/op\nBenchmarkB/x=1-2  7  2e3 ns/op\nPASS\n"
	for metric, want := range map[string][]result{
		"ns/op": {{"BenchmarkA-2", 12.5}, {"BenchmarkB/x=1-2", 2000}}, "B/op": {{"BenchmarkA-2", 3}}, "req/s": nil,
	} {
		if got, err := parseResults(output, metric); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", metric, got, err, want)
		}
	}
}

func TestFlags(t *testing.T) {
	for args, want := range map[string]string{
		"":                           "0 builds given, want 2: BASE NEW (scripts/noise -h explains)",
		"a b":                        "-bench is required, for instance -bench '^BenchmarkAllow$'",
		"a b -bench (":               "invalid -bench \"(\": error parsing regexp: missing closing ): `(`",
		"a b -bench X -pairs 5":      "invalid -pairs 5: must be from 6, for an interval of 95 %, to 1000",
		"a b -bench X -noise 0.9":    "invalid -noise 0.9: must be a ratio between 1 and 2",
		"-bench X a -pairs 7 b":      "",
		"-bench X a -pairs 7 b c -v": "flag provided but not defined: -v",
	} {
		got := ""
		if o, err := parseFlags(strings.Fields(args)); err != nil {
			got = err.Error()
		} else if o.base != "a" || o.new != "b" || o.pairs != 7 {
			t.Errorf("%q: %+v", args, o)
		}
		if got != want {
			t.Errorf("%q: %q, want %q", args, got, want)
		}
	}
}

// TestRun measures allocations, which are exact, of a build with more of them than the other.
func TestRun(t *testing.T) {
	builds := map[string]string{"lean": "1", "greedy": "2"}
	root := t.TempDir()
	for name, count := range builds {
		for file, text := range map[string]string{
			"go.mod":    "module m\n\ngo 1.26.0\n",
			"m_test.go": "package m\n\nimport \"testing\"\n\nvar sink []byte\n\nfunc BenchmarkX(b *testing.B) {\n\tfor b.Loop() {\n\t\tfor range " + count + " {\n\t\t\tsink = make([]byte, 10)\n\t\t}\n\t}\n}\n",
		} {
			if err := os.MkdirAll(filepath.Join(root, name), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, name, file), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	o := &options{pkg: ".", bench: "X", benchtime: "100x", metric: "allocs/op", pairs: minPairs, noise: 1.02}
	prepared := map[string]*build{}
	for name := range builds {
		var err error
		if prepared[name], err = prepare(t.Context(), o, filepath.Join(root, name), filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	for change, want := range map[string]string{"greedy": "slower", "lean": "within noise"} {
		m, err := measureAll(t.Context(), o, prepared["lean"], prepared[change])
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if m.print(&out, o.noise); !strings.HasSuffix(out.String(), "  "+want+"\n") {
			t.Errorf("%s: want %s\n%s", change, want, out.String())
		}
	}
	o.bench = "Unknown"
	if _, err := measureAll(t.Context(), o, prepared["lean"], prepared["lean"]); err == nil || err.Error() != `no benchmark of . matches "Unknown" and reports allocs/op` {
		t.Error(err)
	}
	o.base = filepath.Join(root, "absent")
	if status, err := run(t.Context(), o, io.Discard); status != 2 || err == nil || !strings.Contains(err.Error(), "neither a directory nor a revision of git") {
		t.Errorf("status %d, %v", status, err)
	}
}

// A revision of git is unpacked whole, from wherever this is started.
func TestUnpack(t *testing.T) {
	if err := exec.Command("git", "rev-parse", "HEAD").Run(); err != nil {
		t.Skip("not in a repository of git")
	}
	dir := t.TempDir()
	if err := unpack(t.Context(), "HEAD", dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "tools", "go.mod")); err != nil {
		t.Error(err)
	}
}
