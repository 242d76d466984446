// Package decisionlog writes decisions to the log: every one, or a sample that stays small however
// much is decided.
//
// Allowed calls are INFO, denied ones WARN, and what a store or a rule could not do is ERROR. Nobody
// is named: of a caller there is the beginning of the hash that the store knows him by.
//
// It is separate from the engine, which only says what it has decided, and from internal/server, so
// that it can be tested on virtual time.
package decisionlog
