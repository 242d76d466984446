package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// The goals of a single fault, as far as they depend on the machine.
const (
	goalP99    = 25 * time.Millisecond
	goalSilent = 65 * time.Millisecond // store.redis.timeout and 15 ms
	goalAgain  = 2 * time.Second
)

// goal is the p99 of answers that is wanted.
func (f *fault) goal() time.Duration {
	if f.silent {
		return goalSilent
	}
	return goalP99
}

// report is the table of all faults that were run.
var report struct {
	sync.Mutex
	rows []*figures
}

func (f *figures) publish() {
	report.Lock()
	defer report.Unlock()
	report.rows = append(report.rows, f)
}

// table is the report as Markdown.
func table(rows []*figures) string {
	var b strings.Builder
	b.WriteString(head)
	for _, f := range rows {
		b.WriteString(f.row())
	}
	return b.String()
}

const head = "| fault | decisions | lost | errors | false denials | over-admitted (at most) | exact meanwhile | p50 | p99 | p99.9 | exact again | sent late, p99 |\n" +
	"|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n"

func (f *figures) row() string {
	return fmt.Sprintf("| %s, %s | %d | %d | %d | %d | %d (%d) | %.1f %% | %s | %s%s | %s | %s%s | %s |\n",
		f.fault, seconds(f.lasted), f.decisions, f.lost, f.errors, f.falseDenials, f.over, f.bound, 100*f.exact,
		millis(f.p50), millis(f.p99), missed(f.p99 > f.goal), millis(f.p999), seconds(f.again), missed(f.again > goalAgain), millis(f.late))
}

func millis(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// missed marks a figure that is worse than its goal.
func missed(is bool) string {
	if is {
		return " ✗"
	}
	return ""
}

// writeReport writes the table to the file that was asked for.
func writeReport() error {
	file := os.Getenv("PENSTOCK_TEST_FAULTS")
	if file == "" || len(report.rows) == 0 {
		return nil
	}
	var held holding
	for _, f := range report.rows {
		held = held.max(f.held)
	}
	text := table(report.rows) + fmt.Sprintf("\n✗: a goal missed. Goals: nothing lost, no errors, no false denials, over-admission within its bound, p99 ≤ %v, or ≤ %v where Redis is silent; exact again within %v.\n"+
		"\nNo node held more than %d goroutines, %d open files and %d MiB of memory at any time.\n", goalP99, goalSilent, goalAgain, held.goroutines, held.files, held.mib)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o644)
}
