package doctor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/internal/redistest"
)

// A server that sends what it must not is a finding.
func TestHostileServer(t *testing.T) {
	for _, mode := range []string{"single", "sentinel", "cluster"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			for name, reply := range redistest.HostileReplies() {
				if strings.HasPrefix(name, "length ") && !strings.HasSuffix(name, "-5") {
					continue // the guard is the same everywhere; the doctor asks much
				}
				server := redistest.StartFake(t, func(words []string) string {
					if strings.ToUpper(words[0]) == "HELLO" {
						return redistest.Hello(mode)
					}
					return reply
				})
				master := ""
				if mode == "sentinel" {
					master = ", master: m"
				}
				b := visit(t, fmt.Sprintf("store: {type: redis, redis: {mode: %s, addresses: ['%s']%s}}\nkey_secret: %s\n", mode, server.Addr, master, strings.Repeat("s", 32)))
				b.timeout = 50 * time.Millisecond
				if text, outcome := b.examine(); outcome == Healthy {
					t.Errorf("%s: no finding in %s", name, text)
				}
			}
		})
	}
}
