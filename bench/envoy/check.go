package envoy

import (
	"context"
	"errors"
	"fmt"
	"sync"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// check verifies that the compared servers do the same: of many concurrent requests exactly the limit pass,
// requests without a limit pass, and each answer has one status, with the limit.
func check(ctx context.Context, s *server) error {
	const callers, each, limit = 32, 8, 100
	var mu sync.Mutex
	var errs []error
	codes := map[rlsv3.RateLimitResponse_Code]int{}
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			client := rlsv3.NewRateLimitServiceClient(s.conns[i%len(s.conns)])
			for range each {
				r, err := client.ShouldRateLimit(ctx, request("exact", "the-only-one----"))
				mu.Lock()
				codes[r.GetOverallCode()]++
				if err != nil {
					errs = append(errs, err)
				} else if len(r.Statuses) != 1 || r.Statuses[0].Code != r.OverallCode || r.Statuses[0].CurrentLimit.GetRequestsPerUnit() != limit {
					errs = append(errs, fmt.Errorf("an answer like %v", r))
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(errs) > 0 {
		return errs[0]
	}
	if ok, over := codes[rlsv3.RateLimitResponse_OK], codes[rlsv3.RateLimitResponse_OVER_LIMIT]; ok != limit || over != callers*each-limit {
		return fmt.Errorf("%d of %d calls passed and %d were denied; the limit is %d", ok, callers*each, over, limit)
	}
	r, err := rlsv3.NewRateLimitServiceClient(s.conns[0]).ShouldRateLimit(ctx, request("nothing", "unknown---------"))
	if err == nil && r.OverallCode != rlsv3.RateLimitResponse_OK {
		err = errors.New("what no limit is for was denied")
	}
	return err
}
