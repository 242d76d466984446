// Package envoyratelimit serves and converts the configuration of envoyproxy/ratelimit: what that
// service would have answered is answered here, from the same files.
//
// It is separate from rules, as its matching (by depth, the most specific alone) and its charging
// (every descriptor by itself, denied ones too) are not ours. What it finds is decided by the engine,
// as rules are, and internal/rls speaks to Envoy.
package envoyratelimit
