// Package clients has no code: its tests run the clients of all languages against a node and the files in conformance.
package clients
