// Package backtest replays requests of access logs through rules: how many would be denied, by which rule,
// from how many keys, whose, and when. It decides with the engine that serves, at the times of the log.
package backtest
