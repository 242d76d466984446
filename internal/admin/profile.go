package admin

import (
	"bytes"
	"fmt"
	"net/http"
	"runtime/pprof"
	"slices"
	"strings"
	"time"
)

// Bounds of a CPU profile, in seconds.
const (
	usualProfile   = 10
	longestProfile = 60
)

// profiles are what a node can be asked for. None contains values of requests.
var profiles = []string{"allocs", "cpu", "goroutine", "heap", "threadcreate"}

// profile writes a profile of this node in the format of go tool pprof. Only one is taken at a time: a process has one
// CPU profile, and that of goroutines stops all of them for a moment.
func (a *Admin) profile(x *apiRequest) (any, error) {
	name, q := x.r.PathValue("name"), x.query()
	seconds := int64(0)
	if name == "cpu" {
		seconds = q.number("seconds", usualProfile, 1, longestProfile)
	}
	if err := q.err(); err != nil {
		return nil, err
	}
	if !slices.Contains(profiles, name) {
		return nil, refuse(http.StatusNotFound, NotFound, fmt.Sprintf("no profile %.40q; there are %s", name, strings.Join(profiles, ", ")))
	}
	select {
	case a.profiling <- struct{}{}:
		defer func() { <-a.profiling }()
	default:
		return nil, busy("another profile is being taken")
	}
	a.record(x, "profile", name)
	var out bytes.Buffer
	if err := a.takeProfile(x, name, time.Duration(seconds)*a.profileSecond, &out); err != nil {
		return nil, err
	}
	x.w.Header().Set("Content-Type", "application/octet-stream")
	x.w.Header().Set("Content-Disposition", `attachment; filename="`+name+`.pprof"`)
	_, _ = x.w.Write(out.Bytes()) // a client that has gone away needs no error
	return responseWritten{}, nil
}

func (a *Admin) takeProfile(x *apiRequest, name string, long time.Duration, out *bytes.Buffer) error {
	if name != "cpu" {
		return pprof.Lookup(name).WriteTo(out, 0)
	}
	_ = http.NewResponseController(x.w).SetWriteDeadline(time.Now().Add(long + patience)) // fails only where there is no network connection
	if err := pprof.StartCPUProfile(out); err != nil {
		return busy("another profile is being taken")
	}
	defer pprof.StopCPUProfile()
	select {
	case <-time.After(long):
		return nil
	case <-x.r.Context().Done():
		return busy("the client has left")
	case <-a.draining.Done():
		return busy("this node is shutting down")
	}
}
