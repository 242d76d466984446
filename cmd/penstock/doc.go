// Command penstock is the limiter as a program: the server with its doors, and the tools of those
// who run it.
//
//	app.go                   what a run sees, exit codes
//	config*.go               one configuration from defaults, a file, the environment and flags
//	serve.go rehearse.go     the command: run a server, or only look whether it would
//	server*.go lateredis.go  the parts of a server put together: store, rules, engine, doors
//	check.go explain.go      ask a server, or the rules, about a call
//	rules*.go                the rules' tools
//	doctor*.go               look whether all that a node needs is as it should be
//
// It is the only package that chooses a store.
package main
