package admin_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/penstock-io/penstock/internal/admin"
)

// idleDemo is a demo that sends no requests.
type idleDemo struct {
	mu sync.Mutex
	on bool
}

func (d *idleDemo) Turn(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.on = on
}

func (d *idleDemo) Status() admin.DemoStatus {
	d.mu.Lock()
	defer d.mu.Unlock()
	return admin.DemoStatus{Running: d.on, Rate: 50}
}

func TestDemo(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	if get[admin.DemoStatus](s, "GET", "/v1/demo", "").Running {
		t.Error("it runs from the start")
	}
	for _, on := range []bool{true, true, false} {
		if got := get[admin.DemoStatus](s, "PUT", "/v1/demo", object("running", on)); got.Running != on || get[admin.DemoStatus](s, "GET", "/v1/demo", "").Running != on {
			t.Errorf("%+v, want %v", got, on)
		}
	}
	s.refused("PUT", "/v1/demo", "{}", 400, admin.Invalid, `"running"`)
	s.refused("PUT", "/v1/demo", `{"running":true,"host":"192.0.2.1"}`, 400, admin.Invalid, `"host"`)
	s.refused("GET", "/v1/demo?x=1", "", 400, admin.Invalid)
	if w := s.ask("GET", "/v1/audit", ""); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "demo traffic on") {
		t.Errorf("%s", w.Body)
	}
}
