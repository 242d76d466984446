// Package console is the web console: a page that uses the admin API and nothing else, embedded in
// the binary. `make build` makes it from web/ with npm and Vite; without that the binary has a page
// that says so, and all else works.
package console
