// Package spelling suggests corrections for misspelt words, and formats counts with their noun.
package spelling

// Closest returns the known word closest to a misspelt one, or "" if none is close.
func Closest(word string, known []string) string {
	best, distance := "", min(1+(len(word)-1)/5, len(word)-1)
	if len(word) > 64 {
		return ""
	}
	for _, k := range known {
		if max(len(k)-len(word), len(word)-len(k)) > distance {
			continue
		}
		if d := editDistance(word, k); d <= distance && (best == "" || d < distance) {
			best, distance = k, d
		}
	}
	return best
}

// editDistance counts the letters to add, remove, change or swap with their neighbour.
func editDistance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
