package envoyratelimit

import (
	"runtime"
	"testing"

	"github.com/penstock-io/penstock/internal/hostiledoc"
)

// The cost of a file is bounded by its size: 400 bytes of memory for each byte. Twice the file costs about twice as
// much.
func TestCostPerByte(t *testing.T) {
	const perByte = 400
	allocated := func(text string) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, _ = Load(file1(text), Options{}) // must not cost more, refused or not
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	for name, write := range hostiledoc.Envoy {
		small, large := write(128<<10), write(256<<10)
		once, twice := allocated(small), allocated(large)
		t.Logf("%-30s %4d KB: %d bytes allocated for each", name, len(large)>>10, twice/uint64(len(large)))
		if twice > uint64(perByte*len(large)) || twice > 3*once+1<<20 {
			t.Errorf("%s: %d and %d bytes of text, %d and %d bytes allocated", name, len(small), len(large), once, twice)
		}
	}
}
