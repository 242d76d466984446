// Package traffic is what a node remembers of the calls it has decided: how many of each rule were
// allowed and denied, over the last hour; who is denied most; how many different callers there are;
// the last calls themselves; and those that come now, for whoever watches.
//
// It is for people who look, and for the metrics. It stands beside the path of a call and must not
// be felt there: what is counted is counted exactly and in a shard of its own; of the calls
// themselves few are kept, the fewer the more there are, and each stands for those that were not.
// All of it is bounded, however many rules and callers there are.
//
// Attributes are kept in memory as they came, cut to a bounded length, and are forgotten within the
// hour. Nothing of this is written to disk.
package traffic
