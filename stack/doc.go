// Package stack assembles, for Go programs, what penstock serve decides with: rules that are reloaded when
// they change, counters in Redis behind a circuit breaker, leases and a deny cache, local counters that
// continue while Redis is unavailable, and the engine.
//
//	limits, err := stack.Open(ctx, stack.Config{Rules: "rules.yaml", Redis: redisstore.Options{Addresses: []string{"127.0.0.1:6379"}}, Secret: secret})
//	middleware, err := httplimit.New(limits, httplimit.Options{})
//	http.ListenAndServe(":8080", middleware.Wrap(handler))
//
// It is separate from the packages it uses, so that programs that need fewer of them link fewer: one limit
// without rules needs only penstock.New and a store.
package stack
