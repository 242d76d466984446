package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/hostiledoc"
	"github.com/penstock-io/penstock/internal/nodetest"
)

// adminUser sends requests to the admin API of a process with a token.
type adminUser struct {
	address, token string
}

// ask returns the status of the response, 0 if there is none.
func (c *adminUser) ask(ctx context.Context, method, path, body string) int {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+c.address+path, strings.NewReader(body))
	if err != nil {
		return 0
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode
}

// A viewer sends many of the documents that used to take gigabytes and minutes at the same time, and aborts some
// requests. The node stays small and serves an operator all the while. The long suite sends all of them, and
// larger ones.
func TestViewerCannotExhaustTheNode(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("sends documents for 20 s")
	}
	cheap, dear, most := 4<<20, 128<<10, 512<<20
	if os.Getenv("PENSTOCK_TEST_LONG") != "" {
		dear, most = 4<<20, 1<<30
	}
	const operator, viewer = "operator-0123456789", "viewer-0123456789"
	p := startProcessWith(t, []string{"PENSTOCK_ADMIN_TOKEN=" + operator, "PENSTOCK_ADMIN_VIEWER_TOKEN=" + viewer}, onFreePorts...)
	attacker := adminUser{p.addresses["admin"], viewer}
	keeper := adminUser{p.addresses["admin"], operator}

	var all sync.WaitGroup
	var over atomic.Bool
	served := 0
	all.Go(func() {
		for !over.Load() || served < 5 {
			document := fmt.Sprintf("rules: [{name: r%d, key: [], limits: [1/s]}]", served)
			for path, body := range map[string]string{
				"POST /v1/rules/validate": object("document", document),
				"GET /v1/rules":           "",
				"GET /v1/status":          "",
			} {
				method, path, _ := strings.Cut(path, " ")
				if code := keeper.ask(t.Context(), method, path, body); code != http.StatusOK {
					t.Errorf("%s %s as an operator: %d", method, path, code)
				}
			}
			served++
			time.Sleep(10 * time.Millisecond)
		}
	})
	var answered [600]atomic.Int32 // by status
	for name, write := range hostiledoc.Rules {
		size := dear
		if slices.Contains([]string{"words for rules", "one rule's limits", "empty rules"}, name) {
			size = cheap
		}
		body := object("document", write(size-1<<10))
		nodetest.Together(6, func(i int) bool {
			ctx, hangUp := t.Context(), func() {}
			if i >= 4 {
				ctx, hangUp = context.WithTimeout(ctx, 100*time.Millisecond)
			}
			defer hangUp()
			path := []string{"/v1/rules/validate", "/v1/rules/diff"}[i%2]
			answered[attacker.ask(ctx, "POST", path, body)].Add(1)
			return true
		})
	}
	over.Store(true)
	all.Wait()
	counts := map[int]int32{}
	for status := range answered {
		if n := answered[status].Load(); n > 0 {
			counts[status] = n
		}
	}
	peak := peakMemory(t, p.Process.Pid)
	t.Logf("answers to the viewer %v (0: it hung up), the operator was served %d times, peak memory %d MB", counts, served, peak>>20)
	if counts[http.StatusOK] == 0 || counts[0] == 0 {
		t.Errorf("answers to the viewer: %v", counts)
	}
	if peak > most {
		t.Errorf("the node took %d MB, at most %d are expected", peak>>20, most>>20)
	}
	if code := attacker.ask(t.Context(), "POST", "/v1/rules/validate", object("document", "rules: []")); code != http.StatusOK {
		t.Errorf("a viewer, after all: %d", code)
	}
}

// peakMemory returns the peak resident memory of a process.
func peakMemory(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells the peak memory of a process")
	}
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	var kilobytes int
	if _, err := fmt.Sscan(rest, &kilobytes); err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}

// object formats names and values as JSON.
func object(pairs ...any) string {
	all := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		all[pairs[i].(string)] = pairs[i+1]
	}
	text, _ := json.Marshal(all)
	return string(text)
}
