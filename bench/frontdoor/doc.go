// Package frontdoor is the same program with four limiters: 100 requests a minute per address. The documentation
// shows it (docs/explanation/go-compared.md), and a test keeps the two in sync.
package frontdoor
