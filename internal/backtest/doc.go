// Package backtest replays requests of access logs through rules: how many would be denied, by which rule, for
// how many and which keys, and when. It decides with the same engine as a server, at the times of the log.
package backtest
