package rules

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// A hostile document is one of which few bytes cost much. Each has about as many bytes as asked for.
var hostile = map[string]func(bytes int) string{
	"words for rules": func(n int) string { return "rules: [" + strings.Repeat("x,", n/2) + "]" },
	"empty rules":     func(n int) string { return "rules: [" + strings.Repeat("{},", n/3) + "]" },
	"lists of lists": func(n int) string {
		return "rules: [" + strings.Repeat("["+strings.Repeat("[],", 1000)+"],", n/3003) + "]"
	},
	"one rule's limits": func(n int) string {
		return "rules: [{name: a, key: [], limits: [" + strings.Repeat("1/s,", n/4) + "]}]"
	},
	"limits": func(n int) string {
		return eachRule(n, func(i int) string {
			text := fmt.Sprintf("{name: r%d, key: [], limits: [", i)
			for k := range 16 {
				text += fmt.Sprintf("%d/%ds,", i+k+1, k+1)
			}
			return text + "]}"
		})
	},
	"the same name": func(n int) string {
		return eachRule(n, func(int) string { return "{name: a, key: [], limits: [1/s]}" })
	},
	"fields twice": func(n int) string { return eachRule(n, func(int) string { return "{name: a, name: a, name: a}" }) },
	"fields": func(n int) string {
		return eachRule(n, func(i int) string { return fmt.Sprintf("{nam%d: a, limit%d: b, enable_progressiv_limits: c}", i, i) })
	},
	"JSON on one line": func(n int) string {
		return `{"rules": [` + strings.Repeat(`{"name":"A","key":[],"limits":["1/x"]},`, n/40) + `{}]}`
	},
	"methods": func(n int) string {
		return eachRule(n, func(i int) string {
			return fmt.Sprintf("{name: r%d, key: [], limits: [1/s], match: {method: [%s]}}", i, names("M", min(9000, n/10)))
		})
	},
	"one match's attributes": func(n int) string {
		return "rules: [{name: a, key: [], limits: [1/s], match: {" + numbered(n/10, "a%d: b,") + "}}]"
	},
	"attributes": func(n int) string {
		return eachRule(n, func(i int) string {
			return fmt.Sprintf("{name: r%d, key: [], limits: [1/s], match: {%s}}", i, numbered(60, fmt.Sprintf("a%d_%%d: b,", i)))
		})
	},
	"misspelt attributes": func(n int) string {
		declared := "attributes: {" + numbered(250, strings.Repeat("a", 50)+"%d: {header: x},") + "}\n"
		return declared + eachRule(n-len(declared), func(i int) string {
			return fmt.Sprintf("{name: r%d, key: [%sb%d], limits: [1/s]}", i, strings.Repeat("a", 50), i)
		})
	},
	"values": func(n int) string {
		return eachRule(n, func(i int) string {
			return fmt.Sprintf("{name: r%d, key: [], limits: [1/s], match: {ip: [%s]}}", i, numbered(9000, "::%x,"))
		})
	},
	"lists": func(n int) string {
		return "rules: []\nlists: {deny: [" + numbered(min(n/12, 90_000), "{a: '%d'},") + "]}"
	},
	// Many rules with the same long list, and much else in common.
	"rules alike": func(n int) string {
		common := numbered(60, "a%d: b,")
		each := min(9000, n/100)
		return eachRule(n, func(i int) string {
			return fmt.Sprintf("{name: r%d, key: [], limits: [1/s], match: {host: [%s], %s}}", i, numbered(each, "h%d,"), common)
		})
	},
	"two long lists": func(n int) string {
		each := min(9000, n/100)
		return eachRule(n, func(i int) string {
			return fmt.Sprintf("{name: r%d, key: [], limits: [1/s], match: {host: [%s], user: [%s]}}", i, numbered(each, "h%d,"), numbered(each, "u%d,"))
		})
	},
	"overrides": func(n int) string {
		return eachRule(n, func(i int) string {
			return fmt.Sprintf("{name: r%d, key: [], limits: [1/s], overrides: [%s]}", i, strings.Repeat("{match: {}, limits: [2/s]},", 900))
		})
	},
	"overrides that never apply": func(n int) string {
		override := "{match: {user: [" + numbered(64, "x%d,") + "]}, limits: unlimited},"
		return eachRule(n, func(i int) string {
			return fmt.Sprintf("{name: r%d, key: [], limits: [1/s], match: {user: [%s]}, overrides: [%s]}", i, numbered(64, "y%d,"), strings.Repeat(override, 100))
		})
	},
	"paths": func(n int) string {
		return eachRule(n, func(i int) string {
			return fmt.Sprintf("{name: r%d, key: [], limits: [1/s], match: {path: /%d%s}}", i, i, strings.Repeat("/a", 60))
		})
	},
	"expressions": func(n int) string {
		return eachRule(n, func(i int) string {
			return fmt.Sprintf("{name: r%d, key: [], limits: [1/s], match: {when: 'ip==\"%d\"'}}", i, i)
		})
	},
	"long expressions": func(n int) string {
		return eachRule(n, func(i int) string {
			return fmt.Sprintf("{name: r%d, key: [], limits: [1/s], match: {when: 'ip in [%s\"a\"]'}}", i, strings.Repeat(fmt.Sprintf(`"%d",`, i), 500))
		})
	},
	"wildcards": func(n int) string {
		return eachRule(n, func(i int) string {
			return fmt.Sprintf("{name: r%d, key: [], limits: [1/s], match: {path: '/{w%d}', when: 'w%d==\"a\"'}}", i, i, i)
		})
	},
	"time zones": func(n int) string {
		return eachRule(n, func(i int) string {
			return fmt.Sprintf("{name: r%d, key: [], limits: [{rate: 1/day, algorithm: fixed_window, timezone: Z/%d}]}", i, i)
		})
	},
}

// eachRule returns a document of n bytes whose rules a function writes.
func eachRule(n int, write func(i int) string) string {
	var b strings.Builder
	b.WriteString("rules:\n")
	for i := 0; b.Len() < n; i++ {
		b.WriteString("- " + write(i) + "\n")
	}
	return b.String()
}

func numbered(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// names returns different words of capitals.
func names(prefix string, n int) string {
	letters := strings.NewReplacer("0", "A", "1", "B", "2", "C", "3", "D", "4", "E", "5", "F", "6", "G", "7", "H", "8", "I", "9", "J")
	return letters.Replace(numbered(n, prefix+"%d,"))
}

// A compileCost is what compiling a document took.
type compileCost struct{ bytes, allocated, steps, mistakes int }

func costOf(text string) compileCost {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c := newCompiler(parse(context.Background(), "", text), Options{Now: testNow})
	c.snapshot()
	c.sorted(Mistake)
	c.sorted(Warning)
	runtime.ReadMemStats(&after)
	return compileCost{len(text), int(after.TotalAlloc - before.TotalAlloc), c.steps, c.mistakes}
}

// What a document costs is bounded by its bytes, whatever they are: 400 bytes of memory and 16 steps
// for each, of expressions 800 bytes. Twice the document costs about twice as much. Work that is in no
// step and not linear shows as a test that does not end.
func TestCostPerByte(t *testing.T) {
	for name, write := range hostile {
		most := 400
		if strings.Contains(name, "expressions") {
			most = 800
		}
		once, twice := costOf(write(128<<10)), costOf(write(256<<10))
		t.Logf("%-26s %4d KB: %3d bytes allocated and %4.1f steps for each, %d errors",
			name, twice.bytes>>10, twice.allocated/twice.bytes, float64(twice.steps)/float64(twice.bytes), twice.mistakes)
		if twice.allocated > most*twice.bytes || twice.allocated > 3*once.allocated+1<<20 {
			t.Errorf("%s: %d and %d bytes of text, %d and %d bytes allocated", name, once.bytes, twice.bytes, once.allocated, twice.allocated)
		}
		if twice.steps > 16*twice.bytes || twice.steps > 3*once.steps+10_000 {
			t.Errorf("%s: %d and %d bytes of text, %d and %d steps", name, once.bytes, twice.bytes, once.steps, twice.steps)
		}
	}
}

// leaves is a context that ends after it was looked at so many times.
type leaves struct {
	context.Context
	looks int
}

func (l *leaves) Err() error {
	if l.looks--; l.looks < 0 {
		return context.Canceled
	}
	return nil
}

func (l *leaves) Value(any) any { return nil }

// Whenever the client goes, while its document is read, compiled or indexed, the work ends.
func TestWorkEndsWithItsContext(t *testing.T) {
	files := []File{{Name: "a.yaml", Data: []byte(hostile["values"](256 << 10))}}
	whole := &leaves{t.Context(), 1 << 30}
	if _, _, err := CompileContext(whole, files, Options{Now: testNow}); err != nil {
		t.Fatal(err)
	}
	looks := 1<<30 - whole.looks
	if looks < 50 {
		t.Fatalf("the context was looked at %d times", looks)
	}
	for _, files := range [][]File{files, {files[0], {Name: "b.yaml", Data: []byte("rules: []")}}} {
		for _, after := range []int{0, 1, looks / 4, looks / 2, looks - 2} {
			ctx := &leaves{t.Context(), after}
			snapshot, _, err := CompileContext(ctx, files, Options{Now: testNow})
			if snapshot != nil || !errors.Is(err, context.Canceled) || ctx.looks < -4 {
				t.Errorf("%d files, gone after %d looks of %d: %v, then looked at %d times", len(files), after, looks, err, -ctx.looks)
			}
		}
	}
}
