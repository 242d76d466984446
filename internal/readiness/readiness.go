// Package readiness answers /readyz, which several listeners serve.
package readiness

import (
	"net/http"
)

// A State says whether requests should be sent to this node.
type State struct {
	NotReady error // nil: they should
	Degraded bool  // the store is unavailable, so rules decide by their on_store_error
}

// Write answers 200 if the node is ready, even while it is degraded: if the store is unavailable, all nodes are
// degraded, and taking them all out of rotation would turn a fallback into an outage.
func Write(w http.ResponseWriter, s State) {
	status, text := http.StatusOK, "ready\n"
	switch {
	case s.NotReady != nil:
		status, text = http.StatusServiceUnavailable, "not ready: "+s.NotReady.Error()+"\n"
	case s.Degraded:
		text = "ready, but the store does not answer: rules decide by their on_store_error\n"
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text))
}
