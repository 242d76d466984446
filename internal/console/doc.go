// Package console is the web console, embedded in the binary. It uses only the admin API. `make build`
// builds it from web/ with npm and Vite. A binary built without it serves a page that says so;
// everything else works.
package console
