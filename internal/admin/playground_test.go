package admin_test

import (
	"testing"

	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/playground"
)

func TestPlayground(t *testing.T) {
	t.Parallel()
	s := newTestAdmin(t, setup{})
	played := get[playground.Result](s, "POST", "/v1/playground", `{"lanes": [{"name": "log", "limit": {"rate": "2/1m", "algorithm": "sliding_window_log"}}, {"limit": "3/1m"}],
		"arrivals": [{"at_ms": 0}, {"at_ms": 1}, {"at_ms": 2}, {"at_ms": 3, "who": "b", "cost": 9}], "hold_ms": 1}`)
	if len(played.Lanes) != 2 || played.Lanes[0].Allowed != 2 || played.Lanes[1].Allowed != 3 || played.Lanes[0].Steps[3].RetryAfter != nil {
		t.Errorf("%+v", played)
	}
	s.refused("POST", "/v1/playground", `{"lanes": [{"limit": "3/1mn"}], "arrivals": [{"at_ms": 0}]}`, 400, admin.Invalid, "unknown unit mn")
	s.refused("POST", "/v1/playground", `{"lanes": [], "arrivals": [{"at": 0}]}`, 400, admin.Invalid, "unknown field")
	s.refused("POST", "/v1/playground", `{}`, 400, admin.Invalid, "lanes", "arrivals")
}
