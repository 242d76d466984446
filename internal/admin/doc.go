// Package admin is the admin API: the API behind the console and behind the commands that inspect a running server.
// It reports the state of a node and its decisions, shows and changes rules, and manages single clients: their
// counters, bans and reservations.
//
// Every route names the role it requires; a route without one is closed to everyone. A client authenticates with a
// bearer token, or with a session that it started with one.
//
// The package is separate from the decision APIs. It is handed the parts of a node and does not take part in
// decisions. The code that assembles the node chooses the store.
package admin
