// Package envoyenv translates the environment variables of envoyproxy/ratelimit into settings of Penstock, so that a
// deployment of that service can run Penstock instead.
//
// Every variable is mapped, ignored with a reason, or refused. A variable is refused if ignoring it would leave
// requests unlimited or connections less protected. Unset variables have the defaults of that service where they
// differ from Penstock's.
package envoyenv
