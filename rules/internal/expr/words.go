package expr

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// The parser's and the checker's messages that are said in other words.
var (
	badToken   = regexp.MustCompile(`(?s)^Syntax error: token recognition error at: '(.*)'$`)
	unexpected = regexp.MustCompile(`(?s)^Syntax error: (?:extraneous|mismatched|no viable alternative at) input '(.*?)'(?: expecting (.*))?$`)
	missing    = regexp.MustCompile(`^Syntax error: missing '(.*)' at `)
	overload   = regexp.MustCompile(`^found no matching overload for '(.*)' applied to '(.*)'$`)
	reserved   = regexp.MustCompile(`^reserved identifier: (.*)$`)
	suggested  = regexp.MustCompile(` \(did you mean (.*)\?\)$`)
	quoted     = regexp.MustCompile(`"([^"]*)"`)
	lastToken  = regexp.MustCompile(`[\w]+\s*$|[^\w\s]+\s*$`)
)

// instead maps words of other languages to the operators of CEL.
var instead = map[string]string{"and": "&&", "or": "||", "not": "!", "AND": "&&", "OR": "||", "NOT": "!"}

// inWords says what is wrong at a place of an expression, and what would be right. before is the text up to there.
func (l *Language) inWords(problem, before string) string {
	if m := badToken.FindStringSubmatch(problem); m != nil {
		return tokenInWords(strings.TrimSpace(m[1]))
	}
	if m := missing.FindStringSubmatch(problem); m != nil {
		return "a closing " + m[1] + " is missing"
	}
	if m := unexpected.FindStringSubmatch(problem); m != nil {
		return inputInWords(m[1], m[2], before)
	}
	if m := overload.FindStringSubmatch(problem); m != nil {
		return l.overloadInWords(m[1], m[2])
	}
	if m := reserved.FindStringSubmatch(problem); m != nil {
		return fmt.Sprintf("%q is a reserved word; an expression is a condition alone, as in %s", m[1], l.example)
	}
	if problem == "invalid matches argument" {
		return "the argument of matches must be a regular expression (RE2)"
	}
	if rest, ok := strings.CutPrefix(problem, "undeclared reference to"); ok {
		return "unknown name" + strings.ReplaceAll(rest, "'", `"`)
	}
	return strings.TrimPrefix(problem, "Syntax error: ")
}

func tokenInWords(token string) string {
	switch {
	case strings.HasPrefix(token, "=~"):
		return `use matches for a regular expression, as in path.matches("^/v[0-9]+/")`
	case strings.HasPrefix(token, "="):
		return "use == to compare"
	case strings.HasPrefix(token, "|"):
		return "use || for or"
	case strings.HasPrefix(token, "&"):
		return "use && for and"
	case strings.HasPrefix(token, `"`), strings.HasPrefix(token, "'"):
		return "the closing quote is missing"
	case strings.ContainsAny(token, "“”‘’„«»"):
		return `use straight quotes around text: "`
	}
	return fmt.Sprintf("unexpected character %.8q", token)
}

func inputInWords(input, expected, before string) string {
	last := strings.TrimSpace(lastToken.FindString(before))
	switch {
	case instead[input] != "":
		return fmt.Sprintf("use %s instead of %s", instead[input], input)
	case instead[last] != "":
		return fmt.Sprintf("use %s instead of %s", instead[last], last)
	case input == ">" && last == "<":
		return "use != for not equal"
	case expected == "':'":
		return "a choice needs both values, as in a ? b : c"
	case input == "," && expected == "')'":
		return `unexpected ,: write a list in brackets, as in method in ["GET", "HEAD"]`
	case input == "<EOF>" && last == "":
		return "the expression is empty"
	case input == "<EOF>":
		return fmt.Sprintf("the expression ends after %.32q, where a value is expected", last)
	case input == ")" || input == "]" || input == "}":
		return fmt.Sprintf("unexpected %s: nothing is open that it could close", input)
	case expected == "<EOF>":
		return fmt.Sprintf("unexpected %.32q: an operator is missing before it, such as && or ||", input)
	}
	return fmt.Sprintf("unexpected %.32q, where a value is expected", input)
}

func (l *Language) overloadInWords(function, types string) string {
	operator := strings.Trim(strings.ReplaceAll(function, "_", ""), " ")
	if operator == "?:" || operator == "" {
		operator = function
	}
	operands := strings.ReplaceAll(strings.Trim(strings.TrimPrefix(types, "response."), "()"), ", ", " and ")
	switch {
	case strings.Contains(types, "string") && strings.Contains(types, "null"):
		return fmt.Sprintf(`%s cannot be applied to %s: an attribute that a request lacks is ""`, operator, operands)
	case strings.Contains(types, "string") && (strings.Contains(types, "int") || strings.Contains(types, "double")):
		return fmt.Sprintf(`%s cannot be applied to %s: write "1" for text, or int(x) for a number`, operator, operands)
	case operator == "!" || operator == "&&" || operator == "||":
		return fmt.Sprintf("%s cannot be applied to %s: compare first, as in %s", operator, operands, l.example)
	}
	return fmt.Sprintf("%s cannot be applied to %s", operator, operands)
}

// suggest keeps the suggestions of an unknown name that are declared: another misspelt name must not be one.
func suggest(problem string, undeclared []string) string {
	m := suggested.FindStringSubmatchIndex(problem)
	if m == nil {
		return problem
	}
	var names []string
	for _, name := range quoted.FindAllStringSubmatch(problem[m[2]:m[3]], -1) {
		if !slices.Contains(undeclared, name[1]) {
			names = append(names, fmt.Sprintf("%q", name[1]))
		}
	}
	if len(names) == 0 {
		return problem[:m[0]]
	}
	return problem[:m[0]] + " (did you mean " + strings.Join(names, " or ") + "?)"
}
