package simulate

import "testing"

// A window is (now−W, now]: a request as old as the window has left it.
func TestTrailing(t *testing.T) {
	var w trailingWindow
	w.add(0)
	w.add(0)
	w.add(5)
	for _, test := range []struct{ now, want int64 }{{5, 3}, {9, 3}, {10, 1}, {14, 1}, {15, 0}, {1000, 0}} {
		if got := w.count(test.now, 10); got != test.want {
			t.Errorf("at %d: %d, want %d", test.now, got, test.want)
		}
	}
	for i := range int64(10_000) { // and memory is that of the window
		w.add(2000 + i)
		if got := w.count(2000+i, 100); got != min(i+1, 100) {
			t.Fatalf("after %d: %d", i, got)
		}
	}
	if cap(w.at) > 1000 {
		t.Errorf("room for %d instants of a window of 100", cap(w.at))
	}
}
