// Package traffic is what a node remembers about the requests it has decided: how many each rule allowed and denied
// over the last hour, which clients are denied most, how many different clients there are, recent requests, and a
// live stream of requests.
//
// It serves the console and the metrics, and must not slow down decisions. Counts are exact, and each shard has its
// own. Of the requests themselves only a sample is kept, the smaller the higher the rate, and each sampled request
// has a weight for those that were not kept. Everything is bounded, however many rules and clients there are.
//
// Attributes are kept in memory as they arrived, truncated to a bounded length, and dropped within the hour. They are
// never written to disk; package trafficdb writes counts.
package traffic
