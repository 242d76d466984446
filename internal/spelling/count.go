package spelling

import "strconv"

// Count formats a number with its noun: 1 rule, 2 rules.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
