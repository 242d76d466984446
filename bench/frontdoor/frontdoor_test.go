package frontdoor

import (
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/bench/lab"
	"github.com/penstock-io/penstock/internal/redistest"
)

// Each of the programs limits each address separately.
func TestProgramsLimit(t *testing.T) {
	server := redistest.Start(t)
	ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for name, h := range map[string]http.Handler{
		"x/time/rate": withXTimeRate(ok), "go-limiter": lab.Must(withGoLimiter(ok)), "redis_rate": withRedisRate(ok, server.Addr),
		"penstock": lab.Must(withPenstock(ok)), "penstock on Redis": lab.Must(withPenstockOnRedis(ok, server.Addr)),
	} {
		count := map[int]int{}
		for i := range 301 {
			req := httptest.NewRequest("GET", "/", nil)
			if req.RemoteAddr = "192.0.2.1:1234"; i == 300 {
				req.RemoteAddr = "192.0.2.2:1234"
			}
			rec := httptest.NewRecorder()
			h.ServeHTTP(rec, req)
			if count[rec.Code]++; i == 300 && rec.Code != 200 {
				t.Errorf("%s: another address gets %d", name, rec.Code)
			}
		}
		if count[200] < 101 || count[429] < 1 || count[200]+count[429] != 301 {
			t.Errorf("%s: %v; want 100 of one address, some more on a slow machine, and the rest denied", name, count)
		}
	}
}

// The documentation shows these programs unchanged.
func TestDocumentationShowsThem(t *testing.T) {
	page := lab.Must(os.ReadFile("../../docs/explanation/go-compared.md"))
	function := regexp.MustCompile(`(?ms)^func with.*?^}\n`)
	for _, file := range []string{"peers.go", "penstock.go"} {
		found := function.FindAllString(string(lab.Must(os.ReadFile(file))), -1)
		if len(found) == 0 {
			t.Errorf("%s has no program", file)
		}
		for _, f := range found {
			if !strings.Contains(string(page), f) {
				t.Errorf("docs/explanation/go-compared.md does not show this, from bench/frontdoor/%s:\n%s", file, f)
			}
		}
	}
}
