package rules

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
)

// An expression is a `when`, in CEL. Its variables are the attributes, the wildcards of the rule's
// path, all of them strings, and domain; one that the call lacks is "".
//
// An expression fails if it has no answer, such as int(plan) of a plan that is not a number, or if
// it reads a value longer than maxInput. What happens then is up to OnError.
type expression struct {
	text     string
	reads    []string // the variables in it
	program  cel.Program
	maxInput int // bytes of each variable, so that the worst case stays below maxExpressionCost
}

// Bounds of an expression's text. [workBound] bounds what an evaluation costs.
const (
	maxExpressionLength = 4096
	maxExpressionDepth  = 32
	maxExpressionNodes  = 1024
)

// alwaysThere are the variables that need no declaration.
var alwaysThere = []string{"domain", "host", "ip", "method", "path"}

// A language compiles expressions over the same variables.
type language struct {
	env       *cel.Env
	variables []string // sorted
}

// newLanguage returns the language with the given attributes as variables. An attribute that CEL
// cannot name (x-user, in) is none.
func newLanguage(attributes []string) (*language, error) {
	names := slices.Concat(alwaysThere, attributes)
	slices.Sort(names)
	options := []cel.EnvOption{
		cel.ParserExpressionSizeLimit(maxExpressionLength),
		cel.ParserRecursionLimit(maxExpressionDepth),
		cel.ExpressionNodeLimit(maxExpressionNodes),
		cel.ASTValidators(cel.ValidateRegexLiterals(), cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals()),
	}
	variables := slices.DeleteFunc(slices.Compact(names), func(name string) bool { return !isVariable(name) })
	for _, name := range variables {
		options = append(options, cel.Variable(name, cel.StringType))
	}
	env, err := cel.NewEnv(options...)
	if err != nil {
		return nil, fmt.Errorf("prepare the language of when: %w", err)
	}
	return &language{env, variables}, nil
}

// notVariables cannot be the name of a variable in CEL: they are words of the language, or name
// types.
var notVariables = []string{
	"as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop",
	"namespace", "null", "package", "return", "true", "var", "void", "while",
	"bool", "bytes", "double", "dyn", "google", "int", "list", "map", "null_type", "string", "type", "uint",
}

func isVariable(name string) bool {
	return isName(name) && !isDigit(name[0]) && !strings.Contains(name, "-") && !slices.Contains(notVariables, name)
}

// compile returns an expression, or an *expressionError with every flaw.
func (l *language) compile(text string) (*expression, error) {
	if n := utf8.RuneCountInString(text); n > maxExpressionLength {
		return nil, flaw(1, 1, "the expression has %d characters; at most %d", n, maxExpressionLength)
	}
	ast, issues := l.env.Compile(text)
	if issues != nil && len(issues.Errors()) > 0 {
		return nil, flawsOf(issues)
	}
	if got := ast.OutputType(); got != cel.BoolType {
		return nil, flaw(1, 1, "the expression is of type %v; it must be true or false, as in user != \"\"", got)
	}
	bound, err := boundWork(l.env, ast)
	if err != nil {
		return nil, err
	}
	program, err := l.env.Program(ast, cel.CostTracking(bound), cel.CostLimit(maxExpressionCost), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, flaw(1, 1, "%v", err)
	}
	return &expression{text, l.reads(ast), program, bound.maxInput}, nil
}

// reads returns the variables that an expression names, and those that a variable of its own hides.
func (l *language) reads(a *cel.Ast) (names []string) {
	ast.PostOrderVisit(a.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.IdentKind {
			return
		}
		name := strings.TrimPrefix(e.AsIdent(), ".") // as .user may be written for user
		if _, ok := slices.BinarySearch(l.variables, name); ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}))
	return names
}

// An expressionFlaw is what is wrong at a place of an expression's text. Line and column count
// from 1, columns in characters.
type expressionFlaw struct {
	line, column int
	problem      string
}

// An expressionError says why a text is no expression.
type expressionError struct{ flaws []expressionFlaw }

func flaw(line, column int, format string, args ...any) *expressionError {
	return &expressionError{[]expressionFlaw{{line, column, fmt.Sprintf(format, args...)}}}
}

func flawsOf(issues *cel.Issues) *expressionError {
	e := &expressionError{}
	for _, issue := range issues.Errors() {
		problem := issue.Message
		switch {
		case strings.Contains(problem, "!error!"): // of another flaw, which comes later
			continue
		case problem == "invalid matches argument":
			problem = "the argument of matches is no regular expression, as RE2 has them"
		}
		e.flaws = append(e.flaws, expressionFlaw{max(issue.Location.Line(), 1), max(issue.Location.Column(), 0) + 1, problem})
	}
	if len(e.flaws) == 0 {
		return flaw(1, 1, "%v", issues.Err())
	}
	return e
}

func (e *expressionError) Error() string {
	var b strings.Builder
	for i, f := range e.flaws {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%d:%d: %s", f.line, f.column, f.problem)
	}
	return b.String()
}

// holds evaluates the expression for a call. With an error there is no answer.
func (e *expression) holds(c *callValues) (bool, error) {
	c.maxInput = e.maxInput
	result, _, err := e.program.Eval(variables{c})
	if err != nil {
		return false, err
	}
	return result == types.True, nil
}

// variables are a call's values as CEL asks for them.
type variables struct{ *callValues }

func (v variables) ResolveName(name string) (any, bool) {
	value := v.named(name)
	if len(value) > v.maxInput {
		return types.NewErr("%s has %d bytes; this expression reads at most %d", name, len(value), v.maxInput), true
	}
	return value, true
}

func (v variables) Parent() cel.Activation { return nil }
