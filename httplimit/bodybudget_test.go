package httplimit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/penstock-io/penstock"
)

// A stalled body does not end. A read that waits for more can be interrupted.
type stalled struct {
	io.Reader
	once  sync.Once
	ended chan struct{}
}

func newStalled(text string) *stalled {
	return &stalled{Reader: strings.NewReader(text), ended: make(chan struct{})}
}

func (s *stalled) Read(p []byte) (int, error) {
	if n, err := s.Reader.Read(p); err == nil {
		return n, nil
	}
	<-s.ended
	return 0, errors.New("interrupted")
}

func (s *stalled) Interrupt()   { s.once.Do(func() { close(s.ended) }) }
func (s *stalled) Close() error { s.Interrupt(); return nil }

// begun is the beginning of a JSON body.
func begun(bytes int) string { return `{"model":"m","x":"` + strings.Repeat("x", bytes-18) }

func postFrom(client string, body io.Reader) *http.Request {
	req := httptest.NewRequest("POST", "/v1/chat", body)
	req.RemoteAddr, req.ContentLength = client+":1", -1
	req.Header.Set("Content-Type", "application/json")
	return req
}

// bodiesOf sends bodies that do not end, and counts what becomes of them.
type bodiesOf struct {
	r        *Reader
	mu       sync.Mutex
	statuses map[string][]int // of clients whose requests were denied
	all      []io.Closer
}

func (s *bodiesOf) send(client string, body io.ReadCloser) {
	s.all = append(s.all, body)
	go func() {
		req := postFrom(client, body)
		err := s.r.Read(req, new(penstock.Call))
		_ = req.Body.Close()
		if bad, ok := errors.AsType[*RequestError](err); ok {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.statuses[client] = append(s.statuses[client], bad.Status)
		}
	}()
}

func (s *bodiesOf) denied(client string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprint(s.statuses[client])
}

func (s *bodiesOf) close() {
	for _, body := range s.all {
		_ = body.Close()
	}
}

// innocent sends a body that ends, and returns its model.
func (s *bodiesOf) innocent(client string, size int) (string, error) {
	req := postFrom(client, newWhole(begun(size)+`"}`))
	var c penstock.Call
	err := s.r.Read(req, &c)
	_ = req.Body.Close()
	model, _ := c.Attribute("model")
	return model, err
}

const testBudget = 1 << 20

func testBodies(t *testing.T, o ReaderOptions, test func(s *bodiesOf)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o.Sources = strictSources
		s := &bodiesOf{r: newReader(t, o), statuses: map[string][]int{}}
		s.r.bodies.most = testBudget
		test(s)
		s.close()
		synctest.Wait()
		if n := s.r.bodies.used(); n != 0 || len(s.r.bodies.clients) != 0 || s.r.bodies.kept != 0 {
			t.Errorf("at the end %d bytes of %d clients are counted", n, len(s.r.bodies.clients))
		}
	})
}

// One client with bodies that do not end has half of the budget. The rest of its bodies are denied, and nobody else's.
func TestOneClientCannotTakeAllMemoryForBodies(t *testing.T) {
	testBodies(t, ReaderOptions{}, func(s *bodiesOf) {
		for range 20 {
			s.send("192.0.2.1", newStalled(begun(60<<10)))
		}
		synctest.Wait()
		if got := s.denied("192.0.2.1"); !strings.Contains(got, "503") {
			t.Errorf("nothing of the client's was denied: %s", got)
		}
		if n := s.r.bodies.used(); n < testBudget/4 || n > testBudget/2 {
			t.Errorf("one client has %d bytes of %d", n, testBudget)
		}
		if model, err := s.innocent("192.0.2.2", 200<<10); model != "m" || err != nil {
			t.Errorf("another client: %q %v", model, err)
		}
	})
}

// Many clients that fill the budget lose bodies beyond their share as soon as another client needs room.
func TestManyClientsCannotTakeAllMemoryForBodies(t *testing.T) {
	testBodies(t, ReaderOptions{}, func(s *bodiesOf) {
		for i := range 4 {
			for range 8 {
				s.send(fmt.Sprintf("192.0.2.%d", i+1), newStalled(begun(30<<10)))
			}
		}
		synctest.Wait()
		if n := s.r.bodies.used(); n != testBudget {
			t.Fatalf("%d bytes of %d are used", n, testBudget)
		}
		for i := range 20 {
			if model, err := s.innocent(fmt.Sprintf("198.51.100.%d", i), 100<<10); model != "m" || err != nil {
				t.Fatalf("the other client %d: %q %v", i, model, err)
			}
		}
		synctest.Wait()
		lost := 0
		for i := range 4 {
			lost += strings.Count(s.denied(fmt.Sprintf("192.0.2.%d", i+1)), "503")
		}
		if lost == 0 || lost == 32 {
			t.Errorf("%d of 32 bodies were interrupted", lost)
		}
		if model, err := s.innocent("198.51.100.1", 600<<10); err == nil || model != "" {
			t.Errorf("a client above half of the budget: %q %v", model, err)
		}
	})
}

// Bodies that no rule would deny are never interrupted, and take at most half of the budget.
func TestBodiesForShadowRulesGoFirst(t *testing.T) {
	o := ReaderOptions{NeedsField: func(c *penstock.Call, _ string) bool {
		ip, _ := c.Attribute("ip")
		return strings.HasPrefix(ip, "198.51.100.")
	}}
	testBodies(t, o, func(s *bodiesOf) {
		for i := range 64 {
			s.send(fmt.Sprintf("192.0.2.%d", i+1), newStalled(begun(60<<10)))
		}
		synctest.Wait()
		if n := s.r.bodies.used(); n > testBudget/2 || s.denied("192.0.2.1") != "[]" || s.denied("192.0.2.64") != "[]" {
			t.Errorf("%d bytes of %d are used; denied %v", n, testBudget, s.statuses)
		}
		if model, err := s.innocent("198.51.100.1", 500<<10); model != "m" || err != nil {
			t.Errorf("a client under a rule that enforces: %q %v", model, err)
		}
		if model, err := s.innocent("192.0.2.200", 100<<10); model != "none" || err != nil {
			t.Errorf("a client under shadow rules: %q %v", model, err)
		}
	})
}

// A body that is complete is not interrupted, and is passed on as a whole.
func TestCompleteBodiesAreNotInterrupted(t *testing.T) {
	testBodies(t, ReaderOptions{}, func(s *bodiesOf) {
		text := begun(200<<10) + `"}`
		complete := postFrom("192.0.2.1", newWhole(text))
		if err := s.r.Read(complete, new(penstock.Call)); err != nil {
			t.Fatal(err)
		}
		for i := range 16 {
			s.send(fmt.Sprintf("192.0.2.%d", i+2), newStalled(begun(60<<10)))
		}
		synctest.Wait()
		if model, err := s.innocent("198.51.100.1", 20<<10); model != "m" || err != nil {
			t.Errorf("another client: %q %v", model, err)
		}
		if got, err := io.ReadAll(complete.Body); err != nil || string(got) != text {
			t.Errorf("%d bytes of %d were passed on: %v", len(got), len(text), err)
		}
		_ = complete.Body.Close()
	})
}

func newWhole(text string) io.ReadCloser {
	return struct {
		io.Reader
		interrupter
	}{bytes.NewReader([]byte(text)), interrupter{}}
}

type interrupter struct{}

func (interrupter) Interrupt()   {}
func (interrupter) Close() error { return nil }
