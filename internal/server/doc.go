// Package server assembles a node and runs it: the store, the rules, the engine that decides by them, and the
// listeners where requests arrive.
//
//	server.go           New, Run and Close: what starts in which order, and how it drains
//	store.go rules.go nodes.go telemetry.go   the parts of a node
//	listeners.go gateway.go envoy.go admin.go   the listeners
//	tls.go supervise.go   certificates, systemd
//	greet.go            what a start prints
//	rehearse.go         the checks of serve --check, without listening
//	demo*.go            the demo upstream and its traffic
package server
