package admin

import "time"

// A Route is a served route and its role.
type Route struct {
	Method, Path string
	Role         Role
}

// Routes returns all served routes.
func Routes() (all []Route) {
	a := &Admin{Options: Options{Demo: struct{ Demo }{}}}
	for _, r := range a.routes() {
		all = append(all, Route{r.method, r.path, r.role})
	}
	return all
}

// Nobody is the role of a route that names none.
const Nobody = nobody

// SetToolTime sets how long a tool may run. It must be called before one runs.
func (a *Admin) SetToolTime(d time.Duration) { a.toolTime = d }

// OccupyTools is a tool that runs and does not end.
func (a *Admin) OccupyTools() { a.tools.running <- struct{}{} }

// The bounds of a run of a tool.
const (
	ToolBytes         = toolBytes
	SimulatedRequests = simulatedRequests
	SimulatedKeys     = simulatedKeys
	SimulatedNodes    = simulatedNodes
)

// ProfileSecond sets how long a second of a profile takes. It must be called before one is taken.
func (a *Admin) ProfileSecond(d time.Duration) { a.profileSecond = d }

// Beat sets the interval of heartbeats. It must be called before there are streams.
func (a *Admin) Beat(every time.Duration) { a.beat = every }

// LookEvery sets how often the overview is sent. It must be called before there are streams.
func (a *Admin) LookEvery(d time.Duration) { a.lookEvery = d }

// Veiled returns what viewers see of a value.
func Veiled(secret, attribute, value string) string { return newMasker(secret).value(attribute, value) }

// AddTo adds an override to a document.
func AddTo(text, rule string, match map[string]string, limit string) (string, error) {
	o := override{Match: match, Limit: limit}
	return o.addTo(text, rule)
}
