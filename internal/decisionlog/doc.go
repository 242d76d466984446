// Package decisionlog logs decisions: all of them, or a sample that stays small at any rate.
//
// Allowed requests are INFO, denied ones WARN, and failures of a store or a rule ERROR. Records do not name clients:
// they contain the beginning of the hash that the store uses for the client.
//
// It is separate from the engine, which only reports its decisions, and from internal/server, so that it can be
// tested on virtual time.
package decisionlog
