// Command penstock is the limiter as a program: the server, and the tools to operate it.
//
// A command parses its flags, calls one package and prints. main.go registers all of them.
//
//	app.go                  the environment of a run, exit codes
//	serve.go doctor.go      internal/server and internal/doctor, with a configuration of internal/config
//	check.go explain.go     ask a server, or rules, about a request
//	rules*.go keys*.go      tools for rules and for the counters of single clients
package main
