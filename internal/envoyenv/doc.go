// Package envoyenv translates the environment variables of envoyproxy/ratelimit into settings of Penstock, so that
// a deployment of that service can run Penstock instead.
//
// Every variable is mapped, or ignored with a reason, or refused: one that is refused would leave requests
// unlimited, or connections less protected, if it were ignored. Variables that are not set have the defaults of
// that service where these differ from Penstock's.
package envoyenv
