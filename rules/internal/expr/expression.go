// Package expr compiles and evaluates the expressions of rules, which are written in CEL: those of when and of
// estimates, about a request, and those of charge_if, refund_if and strike_if, about a response.
package expr

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
)

// An Expression is a condition or a number in CEL. Its variables are the attributes, the wildcards of the rule's path,
// and domain. All are strings; one that the request lacks is "".
//
// An expression fails if it has no result, such as int(plan) of a plan that is not a number, or if it reads a
// value longer than maxInput. OnError says what happens then.
type Expression struct {
	Text     string
	Reads    []string // the variables in it
	program  cel.Program
	maxInput int // bound of each variable in bytes, which keeps the worst case below maxExpressionCost
}

// Bounds of an expression's text. [workBound] bounds the cost of an evaluation.
const (
	maxExpressionLength = 4096
	maxExpressionDepth  = 32
	maxExpressionNodes  = 1024
)

// AlwaysThere lists the variables that need no declaration.
var AlwaysThere = []string{"domain", "host", "ip", "method", "path"}

// A Language compiles expressions over the same variables.
type Language struct {
	env        *cel.Env
	variables  []string // sorted
	undeclared []string
	example    string // of an expression
}

// NewLanguage returns the language with the given attributes as variables. It skips an attribute that is not a
// valid CEL name (x-user, in). Errors never suggest one that is undeclared.
func NewLanguage(attributes, undeclared []string) (*Language, error) {
	names := slices.Concat(AlwaysThere, attributes)
	slices.Sort(names)
	options := bounded()
	variables := slices.DeleteFunc(slices.Compact(names), func(name string) bool { return !isVariable(name) })
	for _, name := range variables {
		options = append(options, cel.Variable(name, cel.StringType))
	}
	env, err := cel.NewEnv(options...)
	if err != nil {
		return nil, fmt.Errorf("prepare the language of when: %w", err)
	}
	return &Language{env, variables, undeclared, `user != ""`}, nil
}

// bounded returns the options that bound the text of expressions.
func bounded() []cel.EnvOption {
	return []cel.EnvOption{
		cel.ParserExpressionSizeLimit(maxExpressionLength),
		cel.ParserRecursionLimit(maxExpressionDepth),
		cel.ExpressionNodeLimit(maxExpressionNodes),
		cel.ASTValidators(cel.ValidateRegexLiterals(), cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals()),
	}
}

// notVariables lists names that CEL reserves for keywords or types.
var notVariables = []string{
	"as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop",
	"namespace", "null", "package", "return", "true", "var", "void", "while",
	"bool", "bytes", "double", "dyn", "google", "int", "list", "map", "null_type", "string", "type", "uint",
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func isVariable(name string) bool {
	return identifier.MatchString(name) && !slices.Contains(notVariables, name)
}

// Compile returns a condition, or an *Error that lists every flaw.
func (l *Language) Compile(text string) (*Expression, error) {
	return l.compile(text, cel.BoolType, "it must be true or false, as in "+l.example)
}

// CompileNumber returns an expression whose value is a whole number, or an *Error that lists every flaw.
func (l *Language) CompileNumber(text string) (*Expression, error) {
	return l.compile(text, cel.IntType, "it must be a whole number, as in int(max_tokens) + 500")
}

func (l *Language) compile(text string, as *cel.Type, hint string) (*Expression, error) {
	if n := utf8.RuneCountInString(text); n > maxExpressionLength {
		return nil, newError(1, 1, "the expression has %d characters; at most %d", n, maxExpressionLength)
	}
	ast, issues := l.env.Compile(text)
	if issues != nil && len(issues.Errors()) > 0 {
		return nil, l.flawsOf(text, issues)
	}
	if got := ast.OutputType(); got != as {
		return nil, newError(1, 1, "the expression is of type %v; %s", got, hint)
	}
	bound, err := boundWork(l.env, ast)
	if err != nil {
		return nil, err
	}
	program, err := l.env.Program(ast, cel.CostTracking(bound), cel.CostLimit(maxExpressionCost), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, newError(1, 1, "%v", err)
	}
	return &Expression{text, l.reads(ast), program, bound.maxInput}, nil
}

// reads returns the variables that an expression names. This includes those that a local variable hides.
func (l *Language) reads(a *cel.Ast) (names []string) {
	ast.PostOrderVisit(a.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.IdentKind {
			return
		}
		name := strings.TrimPrefix(e.AsIdent(), ".") // .user is another way to write user
		if _, ok := slices.BinarySearch(l.variables, name); ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}))
	return names
}

// A CompileError is an error at a place in an expression's text. Line and column count from 1, columns in characters.
type CompileError struct {
	Line, Column int
	Problem      string
}

// An Error says why a text is not a valid expression.
type Error struct{ Flaws []CompileError }

func newError(line, column int, format string, args ...any) *Error {
	return &Error{[]CompileError{{line, column, fmt.Sprintf(format, args...)}}}
}

// flawsOf says what is wrong with a text. After a syntax error the others follow from it.
func (l *Language) flawsOf(text string, issues *cel.Issues) *Error {
	e := &Error{}
	for _, issue := range issues.Errors() {
		if strings.Contains(issue.Message, "!error!") { // caused by another flaw, which comes later
			continue
		}
		line, column := max(issue.Location.Line(), 1), max(issue.Location.Column(), 0)
		problem := suggest(l.inWords(issue.Message, textBefore(text, line, column)), l.undeclared)
		e.Flaws = append(e.Flaws, CompileError{line, column + 1, problem})
		if strings.HasPrefix(issue.Message, "Syntax error") || strings.HasPrefix(issue.Message, "reserved") {
			return &Error{e.Flaws[len(e.Flaws)-1:]}
		}
	}
	if len(e.Flaws) == 0 {
		return newError(1, 1, "%v", issues.Err())
	}
	return e
}

// textBefore is the text up to a place, whose column counts characters from 0.
func textBefore(text string, line, column int) string {
	lines := strings.SplitAfter(text, "\n")
	line = min(line, len(lines))
	here := []rune(lines[line-1])
	return strings.Join(lines[:line-1], "") + string(here[:min(column, len(here))])
}

func (e *Error) Error() string {
	var b strings.Builder
	for i, f := range e.Flaws {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%d:%d: %s", f.Line, f.Column, f.Problem)
	}
	return b.String()
}

// Variables returns the values that an expression reads: "" for what a request lacks.
type Variables interface{ Variable(name string) string }

// A Scope evaluates expressions. Reuse one, for one request at a time, to avoid allocations.
type Scope struct {
	Variables
	maxInput int // bound of a value, in bytes, for the current expression
}

// Holds evaluates the expression. The result is meaningless if err is not nil.
func (e *Expression) Holds(s *Scope) (bool, error) {
	s.maxInput = e.maxInput
	result, _, err := e.program.Eval(s)
	return result == types.True, err
}

// Number evaluates an expression of CompileNumber.
func (e *Expression) Number(s *Scope) (int64, error) {
	s.maxInput = e.maxInput
	result, _, err := e.program.Eval(s)
	if err != nil {
		return 0, err
	}
	return int64(result.(types.Int)), nil
}

// ResolveName returns a variable to CEL.
func (s *Scope) ResolveName(name string) (any, bool) {
	value := s.Variable(name)
	if len(value) > s.maxInput {
		return types.NewErr("%s has %d bytes; this expression reads at most %d", name, len(value), s.maxInput), true
	}
	return value, true
}

// Parent returns nil: this scope is not nested.
func (s *Scope) Parent() cel.Activation { return nil }
