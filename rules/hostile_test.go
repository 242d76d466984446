package rules

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/hostiledoc"
)

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

// The cost of a document is bounded by its bytes, whatever they are: 400 bytes of memory and 16 steps for each,
// for expressions 800 bytes. Twice the document costs about twice as much. Work that is not counted in steps and
// not linear shows as a test that does not end.
func TestCostPerByte(t *testing.T) {
	for name, write := range hostiledoc.Rules {
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

// endingContext is a context that ends after a number of checks.
type endingContext struct {
	context.Context
	looks int
}

func (l *endingContext) Err() error {
	if l.looks--; l.looks < 0 {
		return context.Canceled
	}
	return nil
}

func (l *endingContext) Value(any) any { return nil }

// Whenever the context ends, while a document is read, compiled or indexed, the work ends.
func TestWorkEndsWithItsContext(t *testing.T) {
	files := []File{{Name: "a.yaml", Data: []byte(hostiledoc.Rules["values"](256 << 10))}}
	whole := &endingContext{t.Context(), 1 << 30}
	if _, _, err := CompileContext(whole, files, Options{Now: testNow}); err != nil {
		t.Fatal(err)
	}
	looks := 1<<30 - whole.looks
	if looks < 50 {
		t.Fatalf("the context was looked at %d times", looks)
	}
	for _, files := range [][]File{files, {files[0], {Name: "b.yaml", Data: []byte("rules: []")}}} {
		for _, after := range []int{0, 1, looks / 4, looks / 2, looks - 2} {
			ctx := &endingContext{t.Context(), after}
			snapshot, _, err := CompileContext(ctx, files, Options{Now: testNow})
			if snapshot != nil || !errors.Is(err, context.Canceled) || ctx.looks < -4 {
				t.Errorf("%d files, gone after %d looks of %d: %v, then looked at %d times", len(files), after, looks, err, -ctx.looks)
			}
		}
	}
}
