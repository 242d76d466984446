package spelling

import (
	"slices"
	"strings"
)

// Printable replaces the characters of an untrusted text that would move a terminal's cursor.
func Printable(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c >= 0x7f && c < 0xa0 || slices.Contains([]rune{0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068, 0x2069}, c) {
			return ' '
		}
		return c
	}, text)
}
