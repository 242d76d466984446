package expr

import (
	"fmt"
	"reflect"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	celref "cel.dev/cel-go/common/types/ref"
)

// A Response is what expressions about a response read: status, duration, and header("name"), which is "" if the
// response lacks the header.
type Response struct {
	Status   int
	Duration time.Duration
	Header   func(name string) string
}

const (
	statusName   = "status"
	durationName = "duration"
	headerName   = "header"
	responseName = "@response" // no expression can name it
)

var responseType = types.NewOpaqueType("response")

// NewResponseLanguage returns the language of expressions about a response.
func NewResponseLanguage() (*Language, error) {
	// header("x") stands for @response.header("x"), because a function of CEL sees only its arguments.
	header := cel.GlobalMacro(headerName, 1, func(f cel.MacroExprFactory, _ ast.Expr, args []ast.Expr) (ast.Expr, *cel.Error) {
		return f.NewMemberCall(headerName, f.NewIdent(responseName), args[0]), nil
	})
	env, err := cel.NewEnv(append(bounded(),
		cel.Variable(statusName, cel.IntType),
		cel.Variable(durationName, cel.DurationType),
		cel.Variable(responseName, responseType),
		cel.Macros(append(cel.StandardMacros, header)...),
		cel.Function(headerName, cel.MemberOverload("response_header", []*cel.Type{responseType, cel.StringType}, cel.StringType,
			cel.BinaryBinding(readHeader))),
	)...)
	if err != nil {
		return nil, fmt.Errorf("prepare the language of responses: %w", err)
	}
	return &Language{env, []string{durationName, statusName}, nil, "status >= 500"}, nil
}

// HoldsFor evaluates an expression about a response. The result is meaningless if err is not nil.
func (e *Expression) HoldsFor(r *Response) (bool, error) {
	result, _, err := e.program.Eval(&responseScope{r, e.maxInput})
	return result == types.True, err
}

// A responseScope holds the variables of one evaluation. It is also the value of @response.
type responseScope struct {
	*Response
	maxInput int
}

// ResolveName returns a variable to CEL.
func (s *responseScope) ResolveName(name string) (any, bool) {
	switch name {
	case statusName:
		return int64(s.Status), true
	case durationName:
		return s.Duration, true
	case responseName:
		return s, true
	}
	return nil, false
}

// Parent returns nil: this scope is not nested.
func (s *responseScope) Parent() cel.Activation { return nil }

func readHeader(of, name celref.Val) celref.Val {
	s, text := of.(*responseScope), string(name.(types.String))
	if s.Header == nil {
		return types.String("")
	}
	value := s.Header(text)
	if len(value) > s.maxInput {
		return types.NewErr("the header %.64s has %d bytes; this expression reads at most %d", text, len(value), s.maxInput)
	}
	return types.String(value)
}

// The following methods make a scope a value of CEL, on which header is called and nothing else.

func (s *responseScope) ConvertToNative(reflect.Type) (any, error) {
	return nil, fmt.Errorf("a response cannot be converted")
}

func (s *responseScope) ConvertToType(celref.Type) celref.Val {
	return types.NewErr("a response cannot be converted")
}

func (s *responseScope) Equal(other celref.Val) celref.Val { return types.Bool(other == celref.Val(s)) }
func (s *responseScope) Type() celref.Type                 { return responseType }
func (s *responseScope) Value() any                        { return s.Response }
