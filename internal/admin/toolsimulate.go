package admin

import (
	"errors"
	"fmt"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/engine/lease"
	"github.com/penstock-io/penstock/internal/plan"
	"github.com/penstock-io/penstock/internal/simulate"
)

// Bounds of a simulation on a node. penstock simulate has wider ones.
const (
	simulatedLimits   = 5
	simulatedRequests = 1_000_000
	simulatedKeys     = 100_000
	simulatedNodes    = 16
	simulatedPools    = 1 << 16 // on all nodes, 24 MiB
)

// simulationInput is the traffic, the limits and the nodes, as in the flags of penstock simulate.
type simulationInput struct {
	simulate.Traffic
	Requests    int64                `json:"requests"`
	Algorithms  []penstock.Algorithm `json:"algorithms"`
	Limit       int64                `json:"limit"`
	Window      float64              `json:"window_ms"`
	Burst       int64                `json:"burst"`
	Queue       int64                `json:"queue"`
	CountDenied bool                 `json:"count_denied"`
	Nodes       int                  `json:"nodes"`
	Sharing     simulate.Sharing     `json:"sharing"`
	OutageFrom  float64              `json:"outage_from_ms"`
	Outage      float64              `json:"outage_ms"`
	Policy      string               `json:"on_store_error"`
}

// simulate sends generated traffic through limits, and compares every decision with an exact count.
func (a *Admin) simulate(t *toolRun) (any, error) {
	asked := simulationInput{
		Traffic:    simulate.Traffic{Model: simulate.Poisson, Rate: 100, Keys: 1000, Zipf: 1.1, Shift: 10, Seed: 1},
		Requests:   100_000,
		Algorithms: []penstock.Algorithm{penstock.FixedWindow, penstock.SlidingWindowLog, penstock.SlidingWindowCounter, penstock.TokenBucket},
		Limit:      100, Window: 60_000, Nodes: 1, Sharing: simulate.Shared, OutageFrom: 60_000, Policy: "local",
	}
	if err := t.read(&asked); err != nil {
		return nil, err
	}
	if err := asked.validate(); err != nil {
		return nil, invalid("%v", err)
	}
	t.start()
	s := asked.simulation()
	t.share(s.Stores())
	s.Pools = max(lease.MinPools, min(lease.DefaultPools, simulatedPools/s.Nodes))
	s.NewStore, s.Progress = t.newSimulationStore, func(int64) { t.rest() }
	s.Bytes = func(s simulate.Store) int64 { return s.(*watchedStore).Bytes() }
	results, err := s.Run(t.ctx)
	if err != nil {
		return t.report(nil, err, "penstock simulate")
	}
	return t.report(s.Page(results), nil, "penstock simulate")
}

// validate reports what is not possible on a node. The simulation itself reports the rest.
func (i *simulationInput) validate() error {
	var errs []error
	within := func(name string, n, most int64) {
		if n > most {
			errs = append(errs, fmt.Errorf("%s %d: a node simulates at most %d; run penstock simulate in a terminal for more", name, n, most))
		}
	}
	within("requests", i.Requests, simulatedRequests)
	within("keys", int64(i.Keys), simulatedKeys)
	within("nodes", int64(i.Nodes), simulatedNodes)
	if n := len(i.Algorithms); n < 1 || n > simulatedLimits {
		errs = append(errs, fmt.Errorf("%d algorithms; there can be from 1 to %d", n, simulatedLimits))
	}
	if i.Sharing != simulate.Shared && i.Sharing != simulate.Leased && i.Sharing != simulate.Apart {
		errs = append(errs, fmt.Errorf("sharing %.40q is not shared, leased or apart", i.Sharing))
	}
	for _, ms := range []float64{i.Outage, i.OutageFrom} {
		if d := durationOf(ms); d < 0 || d > 24*time.Hour {
			errs = append(errs, fmt.Errorf("an outage of %v ms is not from 0 to a day", ms))
		}
	}
	return errors.Join(errs...)
}

func (i *simulationInput) simulation() *simulate.Simulation {
	s := &simulate.Simulation{
		Traffic: i.Traffic, Requests: i.Requests, Nodes: i.Nodes, Sharing: i.Sharing,
		Outage: simulate.Outage{From: durationOf(i.OutageFrom), For: durationOf(i.Outage), Policy: i.Policy},
	}
	shape := simulate.LimitShape{Count: i.Limit, Window: durationOf(i.Window), Burst: i.Burst, Queue: i.Queue, CountDenied: i.CountDenied}
	for _, algorithm := range i.Algorithms {
		s.Limits = append(s.Limits, shape.Limit(algorithm))
	}
	return s
}

// planInput is the traffic and the servers, as in the flags of penstock plan.
type planInput struct {
	plan.Input
	Types     float64            `json:"request_types"`
	Algorithm penstock.Algorithm `json:"algorithm"`
	Limit     float64            `json:"limit"`
	Window    float64            `json:"window_ms"`
}

// plan estimates counters, memory, servers and network.
func (a *Admin) plan(x *apiRequest) (any, error) {
	asked := planInput{Input: plan.Default(), Types: 50, Algorithm: penstock.SlidingWindowCounter, Limit: 100, Window: 60_000}
	asked.Rules = nil
	if err := x.read(&asked); err != nil {
		return nil, err
	}
	if asked.Rules != nil || asked.Algorithm == penstock.Concurrency {
		return nil, invalid("rules cannot be given, and algorithm must be one that counts over time: a plan here is for request_types that all have the same limit")
	}
	in := asked.Input
	in.Rules = []plan.RuleInput{in.Types(asked.Types, asked.Algorithm, durationOf(asked.Window), asked.Limit)}
	made, err := plan.Make(in, plan.DefaultCosts())
	if err != nil {
		return nil, invalid("%v", err)
	}
	return reportOf(made.Page()), nil
}
