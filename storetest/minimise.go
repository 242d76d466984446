package storetest

import "slices"

// minimise drops steps from a failing trace, in ever smaller pieces, while it still fails. It stops early:
// a trace of a few steps is readable, and the shortest one is not needed.
func minimise(steps []step, fails func([]step) bool) []step {
	budget := 400
	for piece := len(steps) / 2; piece > 0; piece /= 2 {
		for from := 0; from+piece <= len(steps); {
			if budget--; budget < 0 {
				return steps
			}
			shorter := slices.Delete(slices.Clone(steps), from, from+piece)
			if len(shorter) > 0 && fails(shorter) {
				steps = shorter
			} else {
				from += piece
			}
		}
	}
	return steps
}
