package spelling

import (
	"math"
	"strconv"
	"strings"
)

// Number returns the one form of a JSON number: 42 for 42, 42.0, 4.2e1 and 0.42E+2. Servers read all of them as one
// number, so no spelling may have a counter of its own. Most servers read numbers as doubles, so a number that is not
// written as an integer is rounded to one. Integers keep all digits: many servers tell identifiers apart that a double
// does not.
//
// ok is false if the number is beyond a double. The text must be a JSON number of a bounded length.
func Number(text string) (form string, ok bool) {
	sign, digits := "", text
	if rest, negative := strings.CutPrefix(text, "-"); negative {
		sign, digits = "-", rest
	}
	whole, exponent := integer(digits)
	switch {
	case whole == "":
		return "0", true // also -0
	case exponent > maxExponent:
		return "", false
	case exponent >= 0:
		return sign + whole + strings.Repeat("0", exponent), true
	}
	n, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil:
		return "", false
	case n == 0:
		return "0", true
	case n == math.Trunc(n):
		return strconv.FormatFloat(n, 'f', -1, 64), true
	}
	return strconv.FormatFloat(n, 'g', -1, 64), true
}

// maxExponent is about the largest exponent of a double.
const maxExponent = 308

// integer returns a number without a sign as a whole number, "" for 0, and the power of ten that it is multiplied by,
// which may be reduced to a large one.
func integer(text string) (whole string, exponent int) {
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		exponent, _ = strconv.Atoi(text[at+1:]) // the largest or least integer if it is beyond one
		exponent = max(-math.MaxInt32, min(exponent, math.MaxInt32))
		text = text[:at]
	}
	whole, fraction, _ := strings.Cut(text, ".")
	exponent -= len(fraction)
	whole = strings.TrimLeft(whole+fraction, "0")
	if exponent < 0 {
		least := len(whole) + max(exponent, -len(whole))
		for len(whole) > least && strings.HasSuffix(whole, "0") {
			whole = whole[:len(whole)-1]
			exponent++
		}
	}
	return whole, exponent
}
