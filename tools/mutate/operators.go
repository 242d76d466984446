package main

import (
	"go/ast"
	"go/token"
	"strings"
)

// replacements are the operators that take the place of others, by kind of change.
var replacements = map[token.Token][]struct {
	kind string
	by   token.Token
}{
	token.LSS: {{"boundary", token.LEQ}, {"negated", token.GEQ}},
	token.LEQ: {{"boundary", token.LSS}, {"negated", token.GTR}},
	token.GTR: {{"boundary", token.GEQ}, {"negated", token.LEQ}},
	token.GEQ: {{"boundary", token.GTR}, {"negated", token.LSS}},
	token.EQL: {{"negated", token.NEQ}},
	token.NEQ: {{"negated", token.EQL}},

	token.LAND: {{"logical", token.LOR}},
	token.LOR:  {{"logical", token.LAND}},

	token.ADD:     {{"arithmetic", token.SUB}},
	token.SUB:     {{"arithmetic", token.ADD}},
	token.MUL:     {{"arithmetic", token.QUO}},
	token.QUO:     {{"arithmetic", token.MUL}},
	token.REM:     {{"arithmetic", token.MUL}},
	token.AND:     {{"arithmetic", token.OR}},
	token.OR:      {{"arithmetic", token.AND}},
	token.XOR:     {{"arithmetic", token.AND}},
	token.AND_NOT: {{"arithmetic", token.AND}},
	token.SHL:     {{"arithmetic", token.SHR}},
	token.SHR:     {{"arithmetic", token.SHL}},

	token.ADD_ASSIGN:     {{"arithmetic", token.SUB_ASSIGN}},
	token.SUB_ASSIGN:     {{"arithmetic", token.ADD_ASSIGN}},
	token.MUL_ASSIGN:     {{"arithmetic", token.QUO_ASSIGN}},
	token.QUO_ASSIGN:     {{"arithmetic", token.MUL_ASSIGN}},
	token.REM_ASSIGN:     {{"arithmetic", token.MUL_ASSIGN}},
	token.AND_ASSIGN:     {{"arithmetic", token.OR_ASSIGN}},
	token.OR_ASSIGN:      {{"arithmetic", token.AND_ASSIGN}},
	token.XOR_ASSIGN:     {{"arithmetic", token.AND_ASSIGN}},
	token.AND_NOT_ASSIGN: {{"arithmetic", token.AND_ASSIGN}},
	token.SHL_ASSIGN:     {{"arithmetic", token.SHR_ASSIGN}},
	token.SHR_ASSIGN:     {{"arithmetic", token.SHL_ASSIGN}},

	token.INC: {{"arithmetic", token.DEC}},
	token.DEC: {{"arithmetic", token.INC}},
}

// visit adds the mutants of the current node itself. They are found without types: what turns out not to compile, such
// as a difference of strings, is replaced by the next mutant.
func (c *collector) visit(node ast.Node) {
	switch n := node.(type) {
	case *ast.BinaryExpr:
		c.operator(n, n.OpPos, n.Op)
	case *ast.UnaryExpr:
		if n.Op == token.NOT || n.Op == token.SUB {
			c.add("negated", c.context(), n.Pos(), n.X.Pos(), "")
		}
	case *ast.BasicLit:
		if n.Kind == token.INT || n.Kind == token.FLOAT || n.Kind == token.CHAR {
			c.add("constant", c.context(), n.Pos(), n.End(), "("+n.Value+"+1)")
			c.add("constant", c.context(), n.Pos(), n.End(), "("+n.Value+"-1)")
		}
	case *ast.Ident:
		c.boolean(n)
	case *ast.IfStmt:
		c.condition(n.Cond)
	case *ast.ForStmt:
		c.condition(n.Cond)
	case *ast.ReturnStmt:
		c.results(n)
	default:
		c.statement(node)
	}
}

func (c *collector) operator(node ast.Node, position token.Pos, operator token.Token) {
	for _, r := range replacements[operator] {
		c.add(r.kind, node, position, position+token.Pos(len(operator.String())), r.by.String())
	}
}

func (c *collector) boolean(n *ast.Ident) {
	switch n.Name {
	case "true":
		c.add("boolean", c.context(), n.Pos(), n.End(), "false")
	case "false":
		c.add("boolean", c.context(), n.Pos(), n.End(), "true")
	}
}

// condition negates a condition that has no operator, because operators have mutants of their own.
func (c *collector) condition(n ast.Expr) {
	switch n := n.(type) {
	case nil, *ast.BinaryExpr, *ast.UnaryExpr:
	default:
		c.add("negated", n, n.Pos(), n.End(), "!("+c.nodeText(n)+")")
	}
}

// statement removes statements, and changes the operators of assignments.
func (c *collector) statement(node ast.Node) {
	switch n := node.(type) {
	case *ast.AssignStmt:
		if n.Tok == token.DEFINE { // without it, most variables would be undefined
			return
		}
		c.operator(n, n.TokPos, n.Tok)
	case *ast.IncDecStmt:
		c.operator(n, n.TokPos, n.Tok)
	case *ast.ExprStmt, *ast.DeferStmt, *ast.GoStmt, *ast.SendStmt, *ast.BranchStmt:
	default:
		return
	}
	if _, ok := c.parent(1).(*ast.CommClause); ok && c.parent(1).(*ast.CommClause).Comm == node {
		return // case <-channel: without it, this would become the default
	}
	lines := strings.Count(c.nodeText(node), "\n") // kept, so that lines after it keep their numbers
	c.add("removed", node, node.Pos(), node.End(), strings.Repeat("\n", lines))
}

// results replaces what a function returns by zero values, and negates booleans.
func (c *collector) results(n *ast.ReturnStmt) {
	types := c.resultTypes()
	if len(n.Results) == 0 || len(types) == 0 {
		return
	}
	if len(n.Results) != len(types) { // return f()
		zeros := make([]string, len(types))
		for i, t := range types {
			zeros[i] = zero(t)
		}
		c.add("result", n, n.Results[0].Pos(), n.Results[0].End(), strings.Join(zeros, ", "))
		return
	}
	for i, result := range n.Results {
		code := c.nodeText(result)
		switch value := zero(types[i]); {
		case types[i] != "bool" && !isZero(code, value):
			c.add("result", n, result.Pos(), result.End(), value)
		case types[i] == "bool" && isPlain(result):
			c.add("result", n, result.Pos(), result.End(), "!("+code+")")
		}
	}
}

// isPlain says whether a boolean expression has no mutant that negates it.
func isPlain(n ast.Expr) bool {
	switch n := n.(type) {
	case *ast.BinaryExpr, *ast.UnaryExpr:
		return false
	case *ast.Ident:
		return n.Name != "true" && n.Name != "false"
	}
	return true
}

func isZero(code, zero string) bool {
	return code == zero || code == "nil" || code == "0" || code == `""` || strings.HasSuffix(code, "{}")
}

// resultTypes returns the code of the result types of the surrounding function or function literal.
func (c *collector) resultTypes() []string {
	var results *ast.FieldList
	for i := 1; results == nil; i++ {
		switch f := c.parent(i).(type) {
		case nil:
			return nil
		case *ast.FuncDecl:
			if results = f.Type.Results; results == nil {
				return nil
			}
		case *ast.FuncLit:
			if results = f.Type.Results; results == nil {
				return nil
			}
		}
	}
	var types []string
	for _, field := range results.List {
		for range max(1, len(field.Names)) {
			types = append(types, c.nodeText(field.Type))
		}
	}
	return types
}

// zero returns an expression for the zero value of a type.
func zero(code string) string {
	switch code {
	case "bool":
		return "false"
	case "string":
		return `""`
	case "error", "any":
		return "nil"
	case "int", "int8", "int16", "int32", "int64", "uint", "uint8", "uint16", "uint32", "uint64", "byte", "rune",
		"uintptr", "float32", "float64":
		return "0"
	}
	for _, prefix := range []string{"*", "[]", "map[", "func(", "chan "} {
		if strings.HasPrefix(code, prefix) {
			return "nil"
		}
	}
	return "*new(" + code + ")"
}
