package expr

import (
	"math"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/types"
	celref "cel.dev/cel-go/common/types/ref"

	"github.com/penstock-io/penstock/internal/bounds"
)

// Bounds of the work of one evaluation, in CEL's units of about 50 ns. They are checked at compile time, for the
// longest values that a client can send. So no client can make an expression too expensive to evaluate.
const (
	maxExpressionCost = 1 << 16
	maxRegexProgram   = 128 // instructions of one regular expression

	// A regular expression takes at most one step per instruction and byte.
	regexStepsPerUnit = 8

	maxInput = bounds.AttributeValue
	minInput = 1 << 10 // bytes that every expression must be able to read
)

// A workBound computes what an expression costs if no variable is longer than maxInput. It tells CEL the cost of
// regular expressions: CEL uses the length of their text, but a{100} has 100 instructions.
type workBound struct {
	maxInput int
	programs map[string]int // instructions of each regular expression
}

// boundWork returns the longest input for which the expression stays below maxExpressionCost. The error is an
// [*Error].
func boundWork(env *cel.Env, a *cel.Ast) (*workBound, error) {
	programs, err := regexPrograms(a)
	if err != nil {
		return nil, err
	}
	b := &workBound{maxInput: maxInput, programs: programs}
	for {
		estimate, err := env.EstimateCost(a, b)
		switch {
		case err != nil:
			return nil, newError(1, 1, "cannot estimate the cost: %v", err)
		case estimate.Max <= maxExpressionCost:
			return b, nil
		case b.maxInput == minInput && estimate.Max == math.MaxUint64:
			return nil, newError(1, 1, "the cost of the expression has no bound; compare attributes directly rather than values computed from them")
		case b.maxInput == minInput:
			return nil, newError(1, 1, "the expression costs up to %d units for attributes of %d bytes; at most %d. Use fewer or shorter regular expressions and loops",
				estimate.Max, minInput, maxExpressionCost)
		}
		b.maxInput /= 2
	}
}

// regexPrograms returns the size of every regular expression. Each must be a literal, because a client could
// choose one built from attributes.
func regexPrograms(a *cel.Ast) (map[string]int, error) {
	programs := map[string]int{}
	e := &Error{}
	ast.PostOrderVisit(a.NativeRep().Expr(), ast.NewExprVisitor(func(x ast.Expr) {
		if x.Kind() != ast.CallKind || x.AsCall().FunctionName() != "matches" {
			return
		}
		args := x.AsCall().Args()
		argument := args[len(args)-1]
		at := a.NativeRep().SourceInfo().GetStartLocation(argument.ID())
		fail := func(format string, args ...any) {
			e.Flaws = append(e.Flaws, newError(max(at.Line(), 1), max(at.Column(), 0)+1, format, args...).Flaws...)
		}
		if argument.Kind() != ast.LiteralKind {
			fail("the argument of matches must be a literal, as in path.matches(\"^/a\")")
			return
		}
		pattern := string(argument.AsLiteral().(types.String))
		size, err := types.RegexProgramSize(pattern)
		switch {
		case err != nil:
			fail("%v", err)
		case size > maxRegexProgram:
			fail("the regular expression compiles to %d instructions; at most %d. List values instead, as in path in [\"/a\", \"/b\"]", size, maxRegexProgram)
		}
		programs[pattern] = size
	}))
	if len(e.Flaws) > 0 {
		return nil, e
	}
	return programs, nil
}

// EstimateSize tells CEL how long variables can be.
func (b *workBound) EstimateSize(n cost.AstNode) *cost.SizeEstimate {
	if len(n.Path()) != 1 {
		return nil
	}
	return &cost.SizeEstimate{Max: uint64(b.maxInput)}
}

// EstimateCallCost tells CEL the maximum cost of a regular expression, and how long a header can be.
func (b *workBound) EstimateCallCost(function, _ string, target *cost.AstNode, args []cost.AstNode) *cost.CallEstimate {
	switch function {
	case headerName:
		return cost.NewCallEstimate(cost.FixedCostEstimate(1), &cost.SizeEstimate{Max: uint64(b.maxInput)})
	case "matches":
	default:
		return nil
	}
	nodes := args
	if target != nil {
		nodes = append([]cost.AstNode{*target}, args...)
	}
	input := nodes[0].ComputedSize()
	if input == nil {
		return nil // CEL reports it as unknown
	}
	pattern, _ := nodes[1].Expr().AsLiteral().(types.String)
	return cost.NewCallEstimate(cost.Estimate{
		Min: b.regexCost(string(pattern), input.Min),
		Max: b.regexCost(string(pattern), input.Max),
	}, nil)
}

// CallCost tells CEL the actual cost of a regular expression.
func (b *workBound) CallCost(function, _ string, args []celref.Val, _ celref.Val) *uint64 {
	if function != "matches" {
		return nil
	}
	input, _ := args[0].(types.String)
	pattern, _ := args[1].(types.String)
	return new(b.regexCost(string(pattern), uint64(len(input))))
}

func (b *workBound) regexCost(pattern string, length uint64) uint64 {
	steps := cost.SafeMultiply(uint64(b.programs[pattern]), length+1)
	return steps/regexStepsPerUnit + 1
}
