package breaker

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A naive tally keeps all results.
type naive struct {
	inARow, window, most int
	failed               []bool
}

func (n *naive) push(failed bool) (tooMany bool) {
	n.failed = append(n.failed, failed)
	row := 0
	for _, f := range slices.Backward(n.failed) {
		if !f {
			break
		}
		row++
	}
	sum := 0
	for _, f := range n.failed[max(0, len(n.failed)-n.window):] {
		if f {
			sum++
		}
	}
	return failed && (row >= n.inARow || sum >= n.most)
}

// differ returns after how many operations the tally and the naive one disagree; -1: never. The share of
// failures varies, so that both conditions for opening occur.
func differ(n naive, seed uint64) int {
	random := rand.New(rand.NewPCG(seed, 1))
	var t tally
	n.failed = nil
	share := 0.3
	for i := range 3000 {
		if i%50 == 0 {
			share = random.Float64()
		}
		failed := random.Float64() < share
		got := false
		if failed {
			got = t.failure(20)
		} else {
			t.success()
		}
		if got != n.push(failed) {
			return i
		}
	}
	return -1
}

func TestTally(t *testing.T) {
	right := naive{inARow: 20, window: 100, most: 50}
	for seed := range uint64(20) {
		if at := differ(right, seed); at >= 0 {
			t.Errorf("seed %d: call %d is judged otherwise than by looking at all of the last 100", seed, at)
		}
	}
	for name, wrong := range map[string]naive{
		"19 in a row": {19, 100, 50, nil}, "21 in a row": {21, 100, 50, nil}, "a window of 99": {20, 99, 50, nil},
		"a window of 101": {20, 101, 50, nil}, "49 of 100": {20, 100, 49, nil}, "51 of 100": {20, 100, 51, nil},
	} {
		noticed := false
		for seed := range uint64(20) {
			noticed = noticed || differ(wrong, seed) >= 0
		}
		if !noticed {
			t.Errorf("%s is not noticed", name)
		}
	}
}
