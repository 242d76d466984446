// Package api is the HTTP door of programs and proxies that ask: the decision API in JSON, and
// forward-auth.
//
// It is handed a [penstock.Decider] and knows nothing of how it decides. What is said in JSON is
// package wire's; how a request of a proxy becomes a call, and what its client is told, is
// httplimit's. Both verdicts of a check are a success of this API: a store that is gone is answered
// by the rules' failure policies, and only what concludes a reservation can be unavailable.
package api
