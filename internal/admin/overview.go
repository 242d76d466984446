package admin

import (
	"fmt"
	"net/http"
	"time"
)

// Of watching the overview.
const (
	lookEvery = time.Second
	maxLooks  = 16 // at once
)

// overview streams what there is to see at a glance, anew every second: stats, status and nodes, each
// with what the route of that name answers.
func (a *Admin) overview(x *exchange) (any, error) {
	last, err := x.last()
	if err != nil {
		return nil, err
	}
	select {
	case a.looks <- struct{}{}:
		defer func() { <-a.looks }()
	default:
		return nil, problem(http.StatusServiceUnavailable, Unavailable, fmt.Sprintf("too many are watching: %d at once", maxLooks))
	}
	s := newStream(x)
	if s.begin() {
		s.look(last)
	}
	return answered{}, nil
}

func (s *stream) look(last time.Duration) {
	a := s.admin
	next := time.NewTicker(a.lookEvery)
	defer next.Stop()
	for s.lasts() && s.send(func() {
		s.event("stats", statsOf(a.Traffic.Stats(last)))
		s.event("status", a.Status())
		s.event("nodes", nodesOf(a.Nodes(), time.Now()))
	}) {
		select {
		case <-a.draining.Done():
			return
		case <-s.r.Context().Done():
			return
		case <-next.C:
		}
	}
}
