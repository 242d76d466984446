package doctor

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/config"
)

// judged returns what the doctor says of a running server with that status.
func judged(now admin.Status) string {
	d := &doctor{Options: Options{Config: &config.Config{}}}
	now.Ready, now.Store.Connected = true, true
	d.judgeRunning(&now, nil)
	var out bytes.Buffer
	d.Print(&out, false)
	return out.String()
}

// The doctor tells what a running server knows of its store: all checks of Redis may be good after it lost everything.
func TestRunningServerHasLostData(t *testing.T) {
	if text := judged(admin.Status{}); strings.Contains(text, "data lost") {
		t.Errorf("without a loss: %s", text)
	}
	last := time.Date(2026, 1, 31, 3, 0, 0, 0, time.UTC)
	text := judged(admin.Status{Store: admin.StoreStatus{Losses: &admin.LossStatus{Times: 1, Last: last}}})
	if !strings.Contains(text, "! data lost") || !strings.Contains(text, "2026-01-31T03:00:00Z") {
		t.Errorf("after a loss: %s", text)
	}
}
