package redisstore_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A mutant is the script with one small change.
type mutant struct {
	number  int    // of the line
	line    string // the original line
	mistake string // "<= for < at 7", or "left out"
	text    string // of the whole script
}

func (m mutant) String() string { return fmt.Sprintf("line %d, %s: %s", m.number, m.mistake, m.line) }

// tokens splits Lua without comments: strings, numbers, names, and operators of two characters and of one.
// A mutation changes one token and never the inside of a string.
var tokens = regexp.MustCompile(`'(?:\\.|[^'\\])*'|\d+(?:\.\d+)?|[A-Za-z_]\w*|<=|>=|==|~=|\.\.|[^\s\w]`)

// swaps are common programming errors: an off-by-one bound, a sign, a condition.
var swaps = map[string]string{
	"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "~=", "~=": "==",
	"and": "or", "or": "and", "not": "", "true": "false", "false": "true",
	"+": "-", "-": "+", "*": "/", "/": "*", "max": "min", "min": "max",
}

// mutants returns every mutation of these kinds of the text.
func mutants(text string) []mutant {
	var all []mutant
	for number, line := range strings.Split(text, "\n") {
		add := func(what, instead string) {
			lines := strings.Split(text, "\n")
			lines[number] = instead
			all = append(all, mutant{number + 1, line, what, strings.Join(lines, "\n")})
		}
		if statement.MatchString(line) {
			add("left out", "")
		}
		found := tokens.FindAllStringIndex(line, -1)
		for i, at := range found {
			token := line[at[0]:at[1]]
			before := ""
			if i > 0 {
				before = line[found[i-1][0]:found[i-1][1]]
			}
			replace := func(by string) {
				add(fmt.Sprintf("%s for %s at %d", by, token, at[0]+1), line[:at[0]]+by+line[at[1]:])
			}
			if by, ok := swaps[token]; ok && !(token == "-" && isSign(before)) {
				replace(by)
			}
			if n, err := strconv.Atoi(token); err == nil && n > 1 { // 0 and 1 are seldom quantities
				replace(strconv.Itoa(n + 1))
				replace(strconv.Itoa(n - 1))
			}
		}
	}
	return all
}

// ownMutants returns the mutations in lines that another script does not have: the shared lines are tried
// there.
func ownMutants(text, other string) []mutant {
	shared := strings.Split(other, "\n")
	return slices.DeleteFunc(mutants(text), func(m mutant) bool { return slices.Contains(shared, m.line) })
}

// statement matches a line that writes or stores and can be left out without a syntax error.
var statement = regexp.MustCompile(`^(redis\.call\(.*\)|[\w.\[\] +]+ = [^{]*[^,{])$`)

// isSign reports whether a minus after the token is a sign and not a subtraction.
func isSign(before string) bool {
	return slices.Contains([]string{"", "(", ",", "=", "<", ">", "return", "and", "or"}, before)
}
