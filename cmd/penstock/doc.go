// Command penstock is the limiter as a program: the server, and the tools of those who operate it.
//
// A command parses its flags, calls one package and prints. main.go registers all of them.
//
//	app.go                  what a run sees, exit codes
//	serve.go doctor.go      internal/server and internal/doctor, with a configuration of internal/config
//	check.go explain.go     ask a server, or rules, about a request
//	rules*.go keys*.go      tools for rules and for the counters of single clients
package main
