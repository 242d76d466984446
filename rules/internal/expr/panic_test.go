package expr

import (
	"strings"
	"testing"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	celref "cel.dev/cel-go/common/types/ref"
)

// An evaluation that panics is a failure like any other, and the next one is evaluated.
func TestExpressionsThatPanicFail(t *testing.T) {
	env, err := cel.NewEnv(
		cel.Variable("plan", cel.StringType),
		cel.Function("explode", cel.Overload("explode_string", []*cel.Type{cel.StringType}, cel.BoolType,
			cel.UnaryBinding(func(v celref.Val) celref.Val {
				if v == types.String("x") {
					panic("exploded")
				}
				return types.True
			}))))
	if err != nil {
		t.Fatal(err)
	}
	panics, err := (&Language{env: env}).Compile("explode(plan)")
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]string{"x": "exploded", "y": ""} {
		holds, err := panics.Holds(scope("plan", value))
		if holds != (want == "") || (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", value, holds, err)
		}
	}
}
