package admin_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// An operator gets every profile in the format of go tool pprof, and the audit log says who took which.
func TestProfiles(t *testing.T) { // not parallel: a process has one CPU profile
	s := newTestAdmin(t, setup{})
	s.door.ProfileSecond(time.Millisecond)
	for _, asked := range []string{"allocs", "cpu", "cpu?seconds=60", "goroutine", "heap", "threadcreate"} {
		r := s.request("GET", "/v1/profiles/"+asked, "")
		bearer(operatorToken)(r)
		w := s.serve(r)
		if w.Code != http.StatusOK {
			t.Errorf("%s: %d %.300s", asked, w.Code, w.Body)
			continue
		}
		packed, err := gzip.NewReader(bytes.NewReader(w.Body.Bytes()))
		if err != nil {
			t.Errorf("%s: %v", asked, err)
			continue
		}
		if text, err := io.ReadAll(packed); err != nil || !bytes.Contains(text, []byte("nanoseconds")) && !bytes.Contains(text, []byte("count")) {
			t.Errorf("%s is not a profile: %v, %d bytes", asked, err, len(text))
		}
		name, _, _ := strings.Cut(asked, "?")
		if log := s.ask("GET", "/v1/audit", "").Body.String(); !strings.Contains(log, `"detail":"`+name+`"`) {
			t.Errorf("%s is not in the audit log: %.400s", asked, log)
		}
		conforms(t, r, w)
	}
	for asked, want := range map[string]string{"cpu?seconds=61": "must be from 1 to 60", "cpu?seconds=0": "must be from 1 to 60", "heap?seconds=5": "unknown parameter"} {
		s.refused("GET", "/v1/profiles/"+asked, "", 400, "invalid", want)
	}
	s.refused("GET", "/v1/profiles/cmdline", "", 404, "not_found", "there are allocs, cpu, goroutine, heap, threadcreate")
	r := s.request("GET", "/v1/profiles/heap", "")
	bearer(viewerToken)(r)
	if w := s.serve(r); w.Code != http.StatusForbidden {
		t.Errorf("a viewer got %d", w.Code)
	}
}

// One profile is taken at a time, and it ends when its client leaves.
func TestOneProfileAtATime(t *testing.T) { // not parallel: a process has one CPU profile
	s := newTestAdmin(t, setup{})
	s.door.ProfileSecond(time.Hour)
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan int)
	first := s.request("GET", "/v1/profiles/cpu", "").WithContext(ctx)
	bearer(operatorToken)(first)
	go func() { ended <- s.serve(first).Code }()
	eventually(t, "the first profile begins", func() bool {
		return strings.Contains(s.ask("GET", "/v1/audit", "").Body.String(), `"profile"`)
	})
	s.refused("GET", "/v1/profiles/heap", "", 503, "unavailable", "another profile is being taken")
	leave()
	if code := <-ended; code != http.StatusServiceUnavailable {
		t.Errorf("the first profile: %d", code)
	}
	r := s.request("GET", "/v1/profiles/heap", "")
	bearer(operatorToken)(r)
	if w := s.serve(r); w.Code != http.StatusOK {
		t.Errorf("after it: %d %.200s", w.Code, w.Body)
	}
}
