package server

import (
	"math"
	"testing"
)

// Every listener has a bound, whatever the limit on open files is.
func TestConnectionsAreBounded(t *testing.T) {
	for _, test := range []struct {
		files uint64
		known bool
		want  int
	}{
		{0, false, 8192}, {10, true, 16}, {65_536, true, 8192}, {1 << 20, true, 131_072}, {1<<20 + 1, true, 131_072}, {math.MaxUint64, true, 131_072},
	} {
		if got := connectionsFor(test.files, test.known); got != test.want {
			t.Errorf("%d open files: %d connections, want %d", test.files, got, test.want)
		}
	}
}
