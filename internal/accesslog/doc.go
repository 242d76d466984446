// Package accesslog reads access logs as a stream of requests, ordered by time.
//
// It knows the logs of nginx, Apache, Caddy, Envoy, HAProxy, AWS load balancers and CloudFront, and JSON lines
// and CSV with named fields; plain, gzip or zstd. It merges several files. Lines may be out of order within a
// window, and only that window is held in memory. A line that cannot be read is counted and shown with its
// position, and never ends the run.
package accesslog
