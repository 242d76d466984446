package storage_test

import (
	"fmt"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// A subject identifies a client without naming it. All nodes that share a store share the secret.
func ExampleHasher_Subject() {
	hasher := storage.NewHasher("a secret of this deployment")
	ann := hasher.Subject("shop", "login", storage.Attribute{Name: "user", Value: "ann"})
	bob := hasher.Subject("shop", "login", storage.Attribute{Name: "user", Value: "bob"})
	fmt.Println(len(ann.String()), ann == bob)
	// Output: 22 false
}

// A ticket asks for several limits together: either all are charged, or none is.
func ExampleTicket() {
	minute := algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 100, Window: time.Minute}.MustCompile()
	day := algorithm.Limit{Algorithm: algorithm.FixedWindow, Count: 10_000, Period: algorithm.Day}.MustCompile()
	hasher := storage.NewHasher("a secret of this deployment")

	ticket := storage.Ticket{Groups: []storage.Group{{
		Subject: hasher.Subject("shop", "search", storage.Attribute{Name: "api_key", Value: "k-17"}),
		Charges: []algorithm.Charge{{Meter: minute, Cost: 1}, {Meter: day, Cost: 1}},
	}}}
	fmt.Println(ticket.Validate()) // store.Take(ctx, &ticket, &outcome) comes next
	// Output: <nil>
}
