// Package telemetry exports what a node does: to Prometheus, which scrapes it, and to OpenTelemetry, which receives
// traces if its environment variables are set.
//
// Package traffic counts requests once; metrics are made from its totals when they are scraped. Labels are bounded:
// the names of the rules, and words of this product. A client is never a label: the console shows the top clients
// instead.
package telemetry
