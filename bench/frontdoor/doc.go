// Package frontdoor is the same program with four limiters: 100 requests a minute from each address. The
// documentation shows it (docs/go-compared.md), and a test holds the two together.
package frontdoor
