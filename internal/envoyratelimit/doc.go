// Package envoyratelimit serves and converts the configuration of envoyproxy/ratelimit: with the same files, it gives
// the same answers as that service.
//
// It is separate from package rules because matching and charging differ. Matching goes by depth, and only the most
// specific descriptor counts; every descriptor is charged by itself, even if it is denied. The engine decides the
// matched limits, as it does rules, and internal/rls speaks Envoy's protocol.
package envoyratelimit
