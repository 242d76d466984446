package doctor

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/redis/rueidis"
)

// examineBus tries the channels through which nodes ask each other. Decisions do not need them.
func (d *doctor) examineBus(ctx context.Context, s *redisServer) {
	channels := d.Config.Store.Redis.KeyPrefix + "bus"
	if d.Config.Nodes == 1 {
		return
	}
	missing, err := s.tryBus(ctx, channels)
	switch {
	case err != nil:
		d.unknown("node bus", "", "cannot check it: %v", err)
	case len(missing) > 0:
		d.warn("node bus", "ACL SETUSER "+d.user()+" +publish +subscribe +unsubscribe &"+channels+"*, if there are several nodes",
			"the console, penstock top and penstock tail show one node only, and annotations without a database too: the Redis user lacks %s", strings.Join(missing, ", "))
	default:
		d.ok("node bus", "nodes can ask each other")
	}
}

// tryBus publishes and subscribes on a channel that nobody uses, and returns the rights that are missing.
func (s *redisServer) tryBus(ctx context.Context, channels string) (missing []string, err error) {
	channel := channels + ":doctor"
	for _, try := range []struct {
		right string
		use   func(context.Context, string) error
	}{
		{"+publish", func(ctx context.Context, channel string) error {
			return s.do(ctx, "PUBLISH", channel, "doctor").Error()
		}},
		{"+subscribe", s.subscribe},
	} {
		err := try.use(ctx, channel)
		switch right := try.right; {
		case err == nil:
		case !mayNot(err):
			return nil, err
		case strings.Contains(err.Error(), "channel") && !strings.Contains(err.Error(), " command"):
			right = "&" + channels + "*"
			fallthrough
		default:
			if len(missing) == 0 || missing[len(missing)-1] != right {
				missing = append(missing, right)
			}
		}
	}
	return missing, nil
}

// subscribe returns nil when the server has confirmed a subscription.
func (s *redisServer) subscribe(ctx context.Context, channel string) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	var confirmed atomic.Bool
	hooked := rueidis.WithOnSubscriptionHook(ctx, func(rueidis.PubSubSubscription) {
		confirmed.Store(true)
		cancel()
	})
	err := s.client.Receive(hooked, s.client.B().Subscribe().Channel(channel).Build(), func(rueidis.PubSubMessage) {})
	if confirmed.Load() {
		return nil
	}
	return err
}
