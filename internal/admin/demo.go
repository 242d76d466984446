package admin

import "time"

// A Demo sends requests of simulated clients to the node's own gateway, for trying out a server. Turning it on twice
// has no further effect.
type Demo interface {
	Turn(on bool)
	Status() DemoStatus
}

// A DemoStatus is what a demo has done since the server started.
type DemoStatus struct {
	Running bool       `json:"running"`
	Since   *time.Time `json:"since,omitempty"` // while it runs
	Rate    int        `json:"per_second"`      // about how many requests it sends
	Allowed int64      `json:"allowed"`
	Denied  int64      `json:"denied"`
	Failed  int64      `json:"failed"` // that got no response, or an unexpected one
}

func (a *Admin) showDemo(x *apiRequest) (any, error) {
	if err := x.query().err(); err != nil {
		return nil, err
	}
	return a.Demo.Status(), nil
}

func (a *Admin) turnDemo(x *apiRequest, asked *struct {
	Running *bool `json:"running"`
}) (any, error) {
	if asked.Running == nil {
		return nil, mistake("running", "is missing: true or false")
	}
	a.Demo.Turn(*asked.Running)
	a.record(x, "demo", map[bool]string{true: "demo traffic on", false: "demo traffic off"}[*asked.Running])
	return a.Demo.Status(), nil
}
