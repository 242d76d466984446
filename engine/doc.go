// Package engine says what happens to one call.
//
//	rules := live.Load()             an atomic read: no lock, no database
//	match := rules.Match(call)       lists first, then every rule that applies
//	out   := store.Take(ticket)      one round trip, or a few locks in memory
//	v     := verdict(match, out)     the strictest wins; shadow rules have no say
//	echo(out)                        this node counts along, for when the store is gone
//	observe(v)                       sees it and cannot change it
//
// A matcher of another kind, as that of Envoy's files, hands over what it found ([Engine.DecideParts]):
// everything after the match is the same.
//
// Without its shadow rules a call gets the same verdict, but for what is told of their limits.
//
// It is separate from rules, which know nothing of stores, and from the doors, which know how calls
// arrive and nothing of how they are decided.
package engine
