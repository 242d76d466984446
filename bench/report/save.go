package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

// JSON writes the report for a program to read.
func (r *Report) JSON(w io.Writer) error {
	for _, s := range r.Sections {
		for _, t := range s.Tables {
			for i := range t.Rows {
				row := &t.Rows[i]
				row.Ratios = make([]Value, len(row.Values))
				for column := range row.Ratios {
					row.Ratios[column] = Value(t.Ratio(row.Name, column))
				}
			}
		}
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

// Save writes each section of the report to its own file, so that a section can be measured again alone.
func (r *Report) Save(dir string) error {
	for _, s := range r.Sections {
		alone := *r
		alone.Sections = []Section{s}
		var b bytes.Buffer
		if err := alone.JSON(&b); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, s.Name+".json"), oneLineArrays(b.Bytes()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

var (
	numberInArray = regexp.MustCompile(`([\[,])\s+(null|-?[0-9][^\s,\]]*)`)
	endOfNumbers  = regexp.MustCompile(`(null|[0-9])\s+\]`)
)

// oneLineArrays writes arrays of numbers on one line.
func oneLineArrays(text []byte) []byte {
	text = numberInArray.ReplaceAll(text, []byte("$1 $2"))
	return bytes.ReplaceAll(endOfNumbers.ReplaceAll(text, []byte("$1]")), []byte("[ "), []byte("["))
}

// Load reads the saved reports of a directory, one for each section, in the order of the names given. Sections that
// were never saved are missing.
func Load(dir string, names []string) ([]Report, error) {
	var all []Report
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(dir, name+".json"))
		if os.IsNotExist(err) {
			continue
		}
		var r Report
		if err == nil {
			err = json.Unmarshal(text, &r)
		}
		if err == nil && (len(r.Sections) != 1 || r.Sections[0].Name != name) {
			err = fmt.Errorf("want one section called %q", name)
		}
		if err == nil {
			err = r.Sections[0].complete()
		}
		if err != nil {
			return nil, fmt.Errorf("saved results of %s: %w", name, err)
		}
		all = append(all, r)
	}
	return all, nil
}

// complete returns an error if a row does not have a figure for each column.
func (s *Section) complete() error {
	for _, t := range s.Tables {
		for _, r := range t.Rows {
			if len(r.Values) != len(t.Columns) {
				return fmt.Errorf("table %q: row %q has %d figures for %d columns", t.Title, r.Name, len(r.Values), len(t.Columns))
			}
		}
	}
	return nil
}

// Replace returns the document with the text between the markers <!-- name --> and <!-- /name --> replaced.
func Replace(document, name, text string) (string, error) {
	begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
	before, rest, ok := strings.Cut(document, begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", fmt.Errorf("no text between %q and %q", begin, end)
	}
	return before + begin + text + end + after, nil
}

// A Machine is where the figures were measured; they are not comparable with those of another.
type Machine struct {
	CPU    string `json:"cpu"` // model
	CPUs   int    `json:"cpus"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
	Redis  string `json:"redis,omitempty"` // versions, if they are installed
	Nginx  string `json:"nginx,omitempty"`
}

// ThisMachine describes the machine that this program runs on.
func ThisMachine() Machine {
	cpuinfo, _ := os.ReadFile("/proc/cpuinfo") // only Linux has it
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return Machine{
		CPU: firstMatch(`(?m)^model name\s*: (.*)$`, cpuinfo), CPUs: runtime.NumCPU(),
		Kernel: runtime.GOOS + "/" + runtime.GOARCH + " " + firstMatch(`^([0-9.]+)`, kernel), Go: strings.TrimPrefix(runtime.Version(), "go"),
		Redis: programVersion(`v=([0-9.]+)`, "redis-server", "--version"),
		Nginx: programVersion(`nginx/([0-9.]+)`, "nginx", "-v"),
	}
}

func programVersion(pattern, name string, args ...string) string {
	out, _ := exec.Command(name, args...).CombinedOutput() // a program that is not installed has no version
	return firstMatch(pattern, out)
}

func firstMatch(pattern string, text []byte) string {
	if m := regexp.MustCompile(pattern).FindSubmatch(text); m != nil {
		return string(m[1])
	}
	return ""
}

// String returns one line.
func (m Machine) String() string {
	parts := []string{fmt.Sprintf("%d × %s", m.CPUs, m.CPU), m.Kernel, "Go " + m.Go}
	for _, p := range []struct{ name, version string }{{"Redis ", m.Redis}, {"nginx ", m.Nginx}} {
		if p.version != "" {
			parts = append(parts, p.name+p.version)
		}
	}
	return strings.Join(parts, ", ")
}

// Commit returns the short name of the commit that is checked out, with a plus sign if Go code differs from it.
func Commit() string {
	name, err := exec.Command("git", "rev-parse", "--short=10", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	commit := strings.TrimSpace(string(name))
	if changes, err := exec.Command("git", "status", "--porcelain", "--", ":/*.go", ":/*.lua").Output(); err != nil || len(changes) > 0 {
		commit += "+"
	}
	return commit
}
