// Package api is the decision API over HTTP, for programs and proxies: JSON, and forward-auth.
//
// It gets a [penstock.Decider] and does not know how that decides. Package wire defines the JSON; httplimit reads the
// request that a proxy asks about and writes the response for its client. An allowed and a denied check are both
// successful requests to this API. If the store is unavailable, the rules' failure policies decide; only settling,
// releasing and renewing a reservation can be unavailable.
package api
