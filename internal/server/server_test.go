package server

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/client/grpcclient"
	"github.com/penstock-io/penstock/internal/nodetest"
)

func TestGatewayEndsIn429(t *testing.T) {
	t.Parallel()
	n := startNode(t, "")
	var answer *http.Response
	var body string
	for i := range 100 {
		answer, body = n.get(n.url("gateway", "/"))
		if answer.StatusCode != http.StatusOK && i >= 10 {
			break
		}
		if answer.StatusCode != http.StatusOK || !strings.Contains(body, "Hello") {
			t.Fatalf("request %d: %s: %s", i+1, answer.Status, body)
		}
	}
	if answer.StatusCode != http.StatusTooManyRequests || answer.Header.Get("Retry-After") == "" || answer.Header.Get("RateLimit") == "" {
		t.Errorf("the last: %s %v: %s", answer.Status, answer.Header, body)
	}
	if !strings.Contains(body, `"error": "rate_limited"`) && !strings.Contains(body, `"error":"rate_limited"`) {
		t.Errorf("the last: %s", body)
	}
	if answer, _ := n.get(n.url("gateway", "/elsewhere")); answer.StatusCode != http.StatusOK {
		t.Errorf("a path without a rule: %s", answer.Status)
	}
}

func TestGatewayAdmitsExactlyTheLimit(t *testing.T) {
	t.Parallel()
	for _, simultaneous := range []int{50, 100} {
		n := startNode(t, "")
		passed := nodetest.Together(simultaneous, func(int) bool {
			answer, _ := n.get(n.url("gateway", "/api/v1/chat"), "X-Fingerprint", "fp:challenge123:hash456")
			return answer.StatusCode == http.StatusOK
		})
		if passed != 10 {
			t.Errorf("%d of %d passed, want 10", passed, simultaneous)
		}
	}
}

const perUser = `
attributes: {user: {header: X-User}}
rules: [{name: per-user, key: [user], limits: [{rate: %d/1h, algorithm: sliding_window_log}]}]
`

// Every listener charges the same counter.
func TestDoorsShareTheLimit(t *testing.T) {
	t.Parallel()
	n := startNode(t, "rules: {file: "+nodetest.RulesFile(t, fmt.Sprintf(perUser, 30))+"}")
	rpc, err := grpcclient.New(n.endpoint("grpc").listener.Addr().String(), grpcclient.Options{
		Timeout: nodetest.Timeout, Dial: []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer rpc.Close()
	passed := nodetest.Together(90, func(i int) bool {
		switch i % 3 {
		case 0:
			answer, _ := n.get(n.url("gateway", "/x"), "X-User", "u1")
			return answer.StatusCode == http.StatusOK
		case 1:
			return n.check(`{"user": "u1"}`).Allowed
		}
		call := penstock.Call{Cost: 1, Attributes: []penstock.Attribute{{Name: "user", Value: "u1"}}}
		var v penstock.Verdict
		if err := rpc.Decide(t.Context(), &call, &v); err != nil {
			t.Error(err)
		}
		return v.Allowed
	})
	if passed != 30 {
		t.Errorf("%d of 90 passed at three listeners, want 30", passed)
	}
}

func TestForwardAuth(t *testing.T) {
	t.Parallel()
	n := startNode(t, "trusted_proxies: [127.0.0.1]")
	for i := range 11 {
		want := http.StatusOK
		if i == 10 {
			want = http.StatusTooManyRequests
		}
		answer, body := n.get(n.url("http", "/v1/auth"), "X-Fingerprint", "f",
			"X-Forwarded-Uri", "/api/v1/chat", "X-Forwarded-Method", "GET", "X-Forwarded-For", "192.0.2.1")
		if answer.StatusCode != want {
			t.Fatalf("request %d: %s: %s", i+1, answer.Status, body)
		}
	}
}

// Rules can identify clients by the claims of a verified token.
func TestTokens(t *testing.T) {
	t.Parallel()
	const secret = "0123456789abcdef0123456789abcdef"
	file := nodetest.RulesFile(t, "attributes: {user: {claim: sub}}\nrules: [{name: per-user, key: [user], limits: [{rate: 1/1h, algorithm: sliding_window_log}]}]")
	n := startNode(t, "jwt: {secret: "+secret+"}\nrules: {file: "+file+"}")
	token := func(user, secret string) string {
		signed, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": user, "exp": time.Now().Add(time.Hour).Unix()}).SignedString([]byte(secret))
		if err != nil {
			t.Fatal(err)
		}
		return signed
	}
	for i, row := range []struct {
		token string
		want  int
	}{
		{token("a", secret), 200}, {token("b", secret), 200}, {token("a", secret), 429},
		{token("a", "forged"+secret), 200}, // nobody's, so that no rule applies
	} {
		if answer, body := n.get(n.url("gateway", "/"), "Authorization", "Bearer "+row.token); answer.StatusCode != row.want {
			t.Errorf("request %d: %s, want %d: %s", i, answer.Status, row.want, body)
		}
	}
}

func TestAdminDoor(t *testing.T) {
	t.Parallel()
	n := startNode(t, "")
	for _, row := range []struct {
		path   string
		header []string
		want   int
	}{
		{"/healthz", nil, 200},
		{"/readyz", nil, 200},
		{"/v1/status", nil, 401},
		{"/v1/status", []string{"Authorization", "Bearer nonsense"}, 401},
		{"/v1/status", []string{"Authorization", n.token}, 401},
		{"/v1/status", []string{"Authorization", "Bearer " + n.token}, 200},
		{"/v1/status", []string{"Authorization", "Bearer " + n.token, "Host", "rebound.example.com"}, 403},
		{"/v1/status", []string{"Authorization", "Bearer " + n.token, "Host", "localhost:1"}, 200},
		{"/v1/elsewhere", nil, 404},
	} {
		if answer, body := n.get(n.url("admin", row.path), row.header...); answer.StatusCode != row.want {
			t.Errorf("%s %v: %s, want %d: %s", row.path, row.header, answer.Status, row.want, body)
		}
	}
	s := n.statusNow()
	if !s.Ready || s.Store.Kind != "memory" || s.Rules.Version != 1 || s.Rules.Rules != 5 || len(s.Addresses) != 4 {
		t.Errorf("status: %+v", s)
	}
}

func TestAdminDoorOverTLS(t *testing.T) {
	t.Parallel()
	other := httptest.NewTLSServer(nil)
	defer other.Close()
	own := other.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certificateFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	nodetest.WriteFile(t, certificateFile, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]})))
	nodetest.WriteFile(t, keyFile, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
	n := startNode(t, fmt.Sprintf("admin: {token: 0123456789abcdef, tls: {certificate: %s, key: %s}}", certificateFile, keyFile))
	answer, err := other.Client().Get("https://" + n.endpoint("admin").listener.Addr().String() + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK || n.token != "0123456789abcdef" {
		t.Errorf("%s, the token is %s", answer.Status, n.token)
	}
}

// A request in flight is answered, the admin API meanwhile reports not ready, and the server ends cleanly.
func TestDrain(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}), make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(arrived)
		<-release
	}))
	defer upstream.Close()
	n := startNode(t, "upstreams: [{url: '"+upstream.URL+"'}]")
	answered := make(chan int, 1)
	go func() {
		answer, _ := n.get(n.url("gateway", "/slow"))
		answered <- answer.StatusCode
	}()
	<-arrived
	n.stop()
	nodetest.Eventually(t, "readyz says no", func() bool {
		answer, _ := n.get(n.url("admin", "/readyz"))
		return answer.StatusCode == http.StatusServiceUnavailable
	})
	close(release)
	if code := <-answered; code != http.StatusOK {
		t.Errorf("the call under way got %d", code)
	}
	if err := <-n.done; err != nil {
		t.Error(err)
	}
}

// Rules change under load, and no request fails.
func TestRulesChangeUnderTraffic(t *testing.T) {
	t.Parallel()
	file := nodetest.RulesFile(t, fmt.Sprintf(perUser, 1))
	n := startNode(t, "rules: {file: "+file+"}")
	first := n.statusNow().Rules.Checksum

	var stop atomic.Bool
	var traffic sync.WaitGroup
	defer traffic.Wait()
	defer stop.Store(true)
	for i := range 4 {
		traffic.Go(func() {
			for ; !stop.Load(); time.Sleep(time.Millisecond) {
				answer, body := n.get(n.url("gateway", "/x"), "X-User", fmt.Sprint("user", i))
				if answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusTooManyRequests {
					t.Errorf("%s: %s", answer.Status, body)
				}
			}
		})
	}
	nodetest.WriteFile(t, file, fmt.Sprintf(perUser, 1000))
	nodetest.Eventually(t, "the new rules are served", func() bool { return n.statusNow().Rules.Checksum != first })
	for range 2 {
		if answer, body := n.get(n.url("gateway", "/x"), "X-User", "probe"); answer.StatusCode != http.StatusOK {
			t.Errorf("under the new rules: %s: %s", answer.Status, body)
		}
	}

	nodetest.WriteFile(t, file, "rules: [{nmae: broken}]")
	nodetest.Eventually(t, "the broken rules are refused", func() bool { return n.statusNow().Rules.Refused != "" })
	if answer, body := n.get(n.url("gateway", "/x"), "X-User", "probe"); answer.StatusCode != http.StatusOK {
		t.Errorf("after a refusal: %s: %s", answer.Status, body)
	}
}
