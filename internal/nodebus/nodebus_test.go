package nodebus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/nodebus"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/internal/ruleredis"
)

const secret = "0123456789abcdef0123456789abcdef"

// A listener is a bus and what it has received.
type listener struct {
	*nodebus.Bus
	mu      sync.Mutex
	got     []string
	changes []error
}

func listen(t *testing.T, redis ruleredis.Options, id, secret string) *listener {
	t.Helper()
	l := new(listener)
	var err error
	l.Bus, err = nodebus.New(nodebus.Options{
		Redis: redis, Secret: secret, ID: id,
		Receive: func(from string, message []byte) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.got = append(l.got, from+": "+string(message))
		},
		Changed: func(err error) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.changes = append(l.changes, err)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	l.Start()
	t.Cleanup(l.Close)
	return l
}

func (l *listener) received() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.got, ", ")
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// A message reaches one node or all others, and nobody without the secret. Redis may go down and come back.
func TestMessages(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) (ruleredis.Options, func()){
		"single": func(t *testing.T) (ruleredis.Options, func()) {
			server := redistest.Start(t)
			return ruleredis.Options{Addresses: []string{server.Addr}, KeyPrefix: "pen:"}, func() {
				if err := errors.Join(server.Kill(), server.Restart()); err != nil {
					t.Fatal(err)
				}
			}
		},
		"cluster": func(t *testing.T) (ruleredis.Options, func()) {
			cluster := redistest.StartCluster(t, 3)
			return ruleredis.Options{Addresses: []string{cluster.Nodes[0].Addr}, Cluster: true, KeyPrefix: "pen:"}, func() {}
		},
	} {
		t.Run(name, func(t *testing.T) {
			redis, interrupt := start(t)
			a, b, c := listen(t, redis, "A", secret), listen(t, redis, "B", secret), listen(t, redis, "C", secret)
			other := listen(t, redis, "D", strings.ToUpper(secret))
			for _, l := range []*listener{a, b, c, other} {
				eventually(t, "it listens", func() bool { return l.Problem() == nil })
			}
			send := func(to, text string) {
				t.Helper()
				eventually(t, "a message can be sent", func() bool {
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					defer cancel()
					return a.Send(ctx, to, "", []byte(text)) == nil
				})
			}
			send("", "to all")
			send("B", "to one")
			send("D", "a secret of its own")
			eventually(t, "they arrive", func() bool { return b.received() == "A: to all, A: to one" && c.received() == "A: to all" })

			interrupt()
			eventually(t, "messages arrive again", func() bool {
				send("C", "again")
				return strings.Contains(c.received(), "again")
			})
			if a.received() != "" || other.received() != "" {
				t.Errorf("the sender received %q, a node with another secret %q", a.received(), other.received())
			}
		})
	}
}

// Messages that nobody sealed, or that were for another node, are ignored.
func TestForeignMessages(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	redis := ruleredis.Options{Addresses: []string{server.Addr}}
	b := listen(t, redis, "B", secret)
	eventually(t, "it listens", func() bool { return b.Problem() == nil })
	for _, text := range []string{"", "x", "\x01", "\x01" + strings.Repeat("y", 100), "\x02" + strings.Repeat("z", 1000)} {
		for _, channel := range []string{"pen:bus", "pen:bus:B"} {
			if _, err := redistest.Command(server.Addr, "PUBLISH", channel, text); err != nil {
				t.Fatal(err)
			}
		}
	}
	a := listen(t, redis, "A", secret)
	eventually(t, "it is connected", func() bool { return a.Problem() == nil })
	if err := a.Send(t.Context(), "B", "", []byte("real")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "only the real one arrives", func() bool { return b.received() == "A: real" })
}

// Too long a message is refused, and so are options that cannot work. A user without the rights is told so.
func TestRefusals(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	redis := ruleredis.Options{Addresses: []string{server.Addr}}
	a := listen(t, redis, "A", secret)
	if err := a.Send(t.Context(), "B", "number", make([]byte, nodebus.MaxMessage+1)); !errors.Is(err, penstock.ErrInvalid) || !strings.Contains(err.Error(), fmt.Sprint(nodebus.MaxMessage)) {
		t.Errorf("a message that is too long: %v", err)
	}
	if _, err := nodebus.New(nodebus.Options{Redis: redis}); !errors.Is(err, penstock.ErrInvalid) {
		t.Errorf("without a secret: %v", err)
	}
	if _, err := redistest.Command(server.Addr, "ACL", "SETUSER", "poor", "on", ">pass", "~pen:*", "-@all", "+ping", "+hello"); err != nil {
		t.Fatal(err)
	}
	redis.Username, redis.Password = "poor", "pass"
	poor := listen(t, redis, "P", secret)
	eventually(t, "it says that it lacks the rights", func() bool { return nodebus.IsForbidden(poor.Problem()) })
}
