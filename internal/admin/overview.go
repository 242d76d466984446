package admin

import "time"

// lookEvery is how often the overview is sent.
const lookEvery = time.Second

// overview streams an overview every second: stats, status and nodes, each with the response of the route of that
// name.
func (a *Admin) overview(x *exchange) (any, error) {
	last, err := x.last()
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
