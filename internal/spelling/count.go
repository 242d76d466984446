package spelling

import "strconv"

// Count writes a number and its noun: 1 rule, 2 rules.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
