package admin

import "time"

// lookEvery is how often the overview is sent.
const lookEvery = time.Second

// overview streams an overview every second: stats, status and nodes, each with the response of the route of that
// name.
func (a *Admin) overview(x *exchange) (any, error) {
	ask, err := x.period()
	if err != nil {
		return nil, err
	}
	end, err := a.overviews.begin(x.who.role)
	if err != nil {
		return nil, err
	}
	defer end()
	s := newStream(x)
	if s.begin() {
		s.look(ask)
	}
	return answered{}, nil
}

func (s *stream) look(ask period) {
	a := s.admin
	next := time.NewTicker(a.lookEvery)
	defer next.Stop()
	for s.lasts() {
		stats := statsOf(a.Fleet.Count(s.r.Context(), ask.query(), ask.node))
		if !s.send(func() {
			s.event("stats", stats)
			s.event("status", a.Status())
			s.event("nodes", nodesOf(a.Nodes(), time.Now()))
		}) {
			return
		}
		select {
		case <-a.draining.Done():
			return
		case <-s.r.Context().Done():
			return
		case <-next.C:
		}
	}
}
