// Package accesslog reads access logs as a stream of requests in the order of their time.
//
// It knows the logs of nginx, Apache, Caddy, Envoy, HAProxy, AWS load balancers and CloudFront, and JSON
// lines and CSV whose fields are named; plain, gzip or zstd. Several files are merged. Lines may be out of
// order within a window, which is all that is held in memory. A line that cannot be read is counted and
// shown with its position, and never ends the run.
package accesslog
