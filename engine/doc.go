// Package engine decides requests.
//
//	rules := live.Load()             an atomic read: no lock, no database
//	match := rules.Match(call)       lists first, then every rule that applies
//	out   := store.Take(ticket)      one round trip, or a few locks in memory
//	v     := verdict(match, out)     the strictest wins; shadow rules do not count
//	echo(out)                        the local store learns, for when the store is unavailable
//	observe(v)                       sees it and cannot change it
//
// Another matcher, such as that of Envoy's files, passes the rules it found to [Engine.DecideParts]:
// everything after the match is the same.
//
// Shadow rules do not change the verdict of a request, except that their limits are listed in it.
//
// The engine is separate from rules, which know nothing about stores, and from listeners and APIs, which know
// how requests arrive but not how they are decided.
package engine
