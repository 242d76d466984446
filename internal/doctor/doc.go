// Package doctor checks everything that a node with a configuration depends on: the machine, the rules and where
// they come from, Redis or Valkey, and the node that already runs here. It changes nothing.
//
//	doctor.go     Run
//	report.go     the findings, and how they are printed
//	machine.go rules.go running.go   the parts that are not Redis
//	redis.go topology.go server.go   which Redis servers decide, and what each one is
//	rights.go memory.go clock.go replicas.go state.go   the checks of one Redis server
//	rehearse.go   Rehearse: what serve --check does
package doctor
