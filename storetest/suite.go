package storetest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/penstock-io/penstock/storage"
)

// Open returns n independent clients of one new, shared state: the nodes of a fleet. It ends what it starts
// through t.Cleanup.
type Open func(t testing.TB, nodes int) []storage.Store

// Run checks the whole contract, as subtests.
func Run(t *testing.T, open Open) { Suite{Open: open}.Run(t) }

// A Suite is the contract for one way of opening a store. Its methods are the parts of Run.
type Suite struct {
	Open Open

	// OneSubject restricts every ticket to one subject, for stores that decide several subjects one after
	// the other, as a Redis Cluster does if they live in different slots.
	OneSubject bool

	// Plain is for stores that only decide tickets: the suite does not settle, ban manually, reset, inspect
	// or charge late. Without it a store must be [CompleteStore].
	Plain bool

	// TwinSteps and Seed, if positive, replace the number of steps that Twin plays and the seed, whatever the
	// length of the run. The environment overrides them. Fewer than 50,000 steps may miss some cases.
	TwinSteps, Seed int
}

// CompleteStore is a store with all abilities that the suite needs.
type CompleteStore interface {
	storage.Store
	storage.Settler
	storage.Banner
	storage.Resetter
	storage.Inspector
	storage.LateCharger
}

// Full returns a store with every ability, for wrappers of stores. Using an ability that the store lacks
// panics.
func Full(s storage.Store) storage.FullStore {
	if full, ok := s.(storage.FullStore); ok {
		return full
	}
	var full struct {
		storage.Store
		storage.Settler
		storage.Banner
		storage.Resetter
		storage.Inspector
		storage.Lister
		storage.LateCharger
	}
	full.Store = s
	full.Settler, _ = s.(storage.Settler)
	full.Banner, _ = s.(storage.Banner)
	full.Resetter, _ = s.(storage.Resetter)
	full.Inspector, _ = s.(storage.Inspector)
	full.Lister, _ = s.(storage.Lister)
	full.LateCharger, _ = s.(storage.LateCharger)
	return full
}

// open returns the nodes, if they have the abilities that the suite needs.
func (s Suite) open(t testing.TB, n int) []storage.Store {
	nodes := s.Open(t, n)
	if err := s.able(nodes); err != nil {
		t.Fatal(err)
	}
	return nodes
}

func (s Suite) able(nodes []storage.Store) error {
	for _, node := range nodes {
		if _, able := node.(CompleteStore); !able && !s.Plain {
			return fmt.Errorf("%T is not Able: it decides, but does not settle, ban, reset, inspect and charge late; a Suite that is Plain asks for decisions only", node)
		}
	}
	return nil
}

// Run checks everything, as subtests.
func (s Suite) Run(t *testing.T) {
	t.Run("Scenarios", s.Scenarios)
	t.Run("Edges", s.Edges)
	t.Run("Invariants", s.Invariants)
	t.Run("Guards", s.Guards)
	t.Run("Promise", s.Promise)
	t.Run("Exactly", s.Exactly)
	t.Run("Linearizable", s.Linearizable)
	t.Run("Expiry", s.Expiry)
	t.Run("Twin", s.Twin)
}

// sameAsTwin is why the race detector needs no further part with random traces.
const sameAsTwin = "Twin plays the same operations from as many goroutines"

// fleet is how many nodes share the state in concurrent tests.
const fleet = 3

// size returns the size of a part: with -short, by default, or with PENSTOCK_TEST_LONG=1.
func size(short, normal, release int) int {
	switch {
	case longRun():
		return release
	case testing.Short():
		return short
	}
	return normal
}

func longRun() bool { return os.Getenv("PENSTOCK_TEST_LONG") == "1" }

// numberFrom reads an environment variable, which must be a positive number if it is set.
func numberFrom(t testing.TB, variable string, otherwise int) int {
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q: must be a positive number", variable, text)
	}
	return n
}

// seeded calls check with a seed. It is always the same, so that only a change can break the tests; in a
// long run it is new each time, unless the suite has its own; PENSTOCK_TEST_SEED repeats a run.
func (s Suite) seeded(t *testing.T, check func(seed uint64) error) {
	t.Helper()
	seed := max(1, s.Seed)
	if longRun() && s.Seed == 0 {
		seed += rand.IntN(1_000_000_000)
	}
	seed = numberFrom(t, "PENSTOCK_TEST_SEED", seed)
	if err := check(uint64(seed)); err != nil {
		t.Errorf("PENSTOCK_TEST_SEED=%d: %v", seed, err)
	}
}
