package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/plan"
	"github.com/penstock-io/penstock/internal/redistest"
)

// A measurement replaces the defaults and leaves nothing behind.
func TestPlanMeasures(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	var out, errs bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs}
	if code := a.run(t.Context(), []string{"plan", "--measure", "--redis", redis.Addr, "-o", "json"}); code != exitYes {
		t.Fatalf("exit status %d: %s", code, &errs)
	}
	var p plan.Plan
	if err := json.Unmarshal(out.Bytes(), &p); err != nil {
		t.Fatal(err)
	}
	if c := p.Costs; !c.Measured || c.Redis.Counter < 100 || c.Redis.Counter > 250 || c.Redis.Decision <= 0 || c.Memory.Counter < 20 || c.Memory.Counter > 60 {
		t.Errorf("%+v", p.Costs)
	}
	if left, err := redistest.Command(redis.Addr, "DBSIZE"); err != nil || left != "0" {
		t.Errorf("%s keys are left, %v", left, err)
	}
}
