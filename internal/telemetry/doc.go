// Package telemetry tells other systems what a node does: Prometheus, which asks for it, and
// OpenTelemetry, which is sent traces if its environment variables say where to.
//
// Calls are counted once, by package traffic; metrics are made of its totals when they are asked for.
// Labels are bounded: the names of rules, of which there are as many as were written, and words of
// this product. No caller is ever a label: that is what the console's tops are for.
package telemetry
