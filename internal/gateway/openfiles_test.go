package gateway

import (
	"math"
	"testing"
)

// There is a bound on connections, and so a share of a client, whatever the limit on open files is.
func TestConnectionsAreBounded(t *testing.T) {
	for _, test := range []struct {
		files uint64
		want  int
	}{
		{0, 24_544}, {10, 1}, {1024, 352}, {1 << 20, 393_184}, {1<<20 + 1, 393_184}, {math.MaxInt64, 393_184}, {math.MaxUint64, 393_184},
	} {
		if got := connectionsFor(test.files); got != test.want {
			t.Errorf("%d open files: %d connections, want %d", test.files, got, test.want)
		}
	}
	if n := Connections(0); n < 1 {
		t.Errorf("%d connections by default", n)
	}
}
