// Package algorithm implements the algorithms of Penstock as pure integer code. It reads no clock, does no
// I/O and imports nothing of Penstock except the names of enumerations.
//
//	Limit  --Compile-->  Meter         what an operator wrote, checked and frozen
//	Meter.Weigh, Meter.Charge          bring a State up to now, decide a cost, add it
//	Meter.Report                       turn the State into the numbers that a client gets
//
// Authors of stores use it; package storage defines what a store is asked. Stores that decide elsewhere, such
// as redisstore in Lua, must agree with it to the last integer. So all arithmetic is on integers below 2^53,
// because Lua in Redis has only doubles.
package algorithm
