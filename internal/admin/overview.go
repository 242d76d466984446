package admin

import "time"

// judgeEvery is how many overviews are sent for each with a judgement.
const judgeEvery = 5

// lookEvery is how often the overview is sent.
const lookEvery = time.Second

// overview streams an overview every second: stats, status, nodes and sometimes attention, each with the response of
// the route of that name.
func (a *Admin) overview(x *apiRequest) (any, error) {
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
	return responseWritten{}, nil
}

func (s *stream) look(ask period) {
	a := s.admin
	next := time.NewTicker(a.lookEvery)
	defer next.Stop()
	for turn := 0; s.isAllowed(); turn++ {
		stats := statsOf(a.Fleet.Count(s.r.Context(), ask.query(), ask.node))
		var judged *Attention
		if turn%judgeEvery == 0 {
			judged = a.judge(s.r.Context())
		}
		if !s.send(func() {
			s.event("stats", stats)
			s.event("status", a.Status())
			if judged != nil {
				s.event("attention", judged)
			}
			s.event("nodes", nodesOf(a.Nodes(), a.Now()))
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
