package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/storage"
)

// The parts about guards.
func init() {
	parts["guarded twin"] = func(n []storage.Store) error { _, err := Suite{}.twin(n, 1, 100_000); return err }
	parts["guarded linear"] = func(n []storage.Store) error {
		return trials(200, 1, func(i int) error { return Suite{}.linearizable(n, 1, 2*i+1) })
	}
	parts["storms"] = everyStorm
	for _, g := range guards {
		parts[g.name] = func(n []storage.Store) error { return g.hold(n, 1, 100) }
	}
}

func everyStorm(nodes []storage.Store) error {
	var errs []error
	for _, s := range storms {
		if err := s.trials(nodes, 50); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.name, err))
		}
	}
	return errors.Join(errs...)
}

func TestSabotageAroundIsNoticed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		store   func() storage.Store
		noticed []string
	}{
		"ignores bans":                 {ignoresBans, []string{"guarded twin", "guarded linear", "scenario", "bans come and go as a list of strikes says", "a ban by hand holds to the microsecond"}},
		"strikes while banned":         {strikesWhileBanned, []string{"guarded twin", "scenario", "bans come and go as a list of strikes says", "while banned nothing is touched"}},
		"strikes for never":            {strikesForNever, []string{"guarded twin", "scenario", "only a rule's own limits strike", "bans come and go as a list of strikes says"}},
		"strikes for others":           {strikesForOthers, []string{"guarded twin", "only a rule's own limits strike"}},
		"believes any ban":             {believesAnyBan, []string{"guarded twin", "scenario", "no clock makes a ban longer"}},
		"never forgives":               {neverForgives, []string{"guarded twin", "scenario", "bans come and go as a list of strikes says"}},
		"does not end with the last":   {startsOverAfterTheLastBan, []string{"guarded twin", "scenario", "no clock makes a ban longer", "bans come and go as a list of strikes says"}},
		"charges while banned":         {chargesWhileBanned, []string{"guarded twin", "guarded linear", "scenario", "while banned nothing is touched"}},
		"bans too short":               {bansTooShort, []string{"guarded twin", "a ban by hand holds to the microsecond"}},
		"refreshes records":            {refreshesRecords, []string{"guarded twin", "scenario", "a repeat is free as often as was agreed"}},
		"forgets replays":              {forgetsReplays, []string{"guarded twin", "scenario", "a repeat is free as often as was agreed"}},
		"ignores the budget":           {ignoresBudget, []string{"guarded twin", "scenario", "storms", "one id, many calls", "every id four times", "repeats for ten minutes", "a repeat is free as often as was agreed"}},
		"records denied calls":         {recordsDenied, []string{"guarded twin", "scenario", "a denied id is decided again"}},
		"confuses ids":                 {confusesIDs, []string{"guarded twin", "scenario", "hostile ids", "a repeat is free as often as was agreed"}},
		"charges replays":              {chargesReplays, []string{"guarded twin", "guarded linear", "scenario", "a repeat is free as often as was agreed"}},
		"counts the budget in windows": {countsBudgetInWindows, []string{"guarded twin", "scenario", "duplicates in any trailing window"}},
		"runs replays without permits": {permitlessReplays, []string{"guarded twin", "guarded linear", "scenario", "storms", "duplicates hold permits"}},
		"concludes originals":          {concludesOriginals, []string{"guarded twin", "guarded linear", "duplicates hold permits"}},
		"strikes for replays":          {strikesForReplays, []string{"guarded twin", "scenario", "duplicates hold permits"}},
		"reserves too long":            {reservesTooLong, []string{"guarded twin", "scenario", "settlements of what is not there"}},
		"overdraws without bound":      {overdrawsWithoutBound, []string{"guarded twin", "scenario", "an overdraft has an end"}},
		"overdraws from nothing":       {overdrawsFromNothing, []string{"guarded twin", "scenario", "an overdraft has an end"}},
		"gives back twice":             {givesBackTwice, []string{"guarded twin", "guarded linear", "scenario", "storms", "what is given back counts once"}},
		"strikes again":                {strikesAgain, []string{"guarded twin", "scenario", "a settlement strikes once"}},
		"forgets what was closed":      {forgetsClosed, []string{"guarded twin", "scenario", "what is given back counts once"}},
		"settles above capacity":       {settlesAboveCapacity, []string{"guarded twin", "guarded linear", "scenario", "settling never exceeds a limit"}},
		"allows every overage":         {allowsEveryOverage, []string{"guarded twin", "scenario", "settling never exceeds a limit"}},
		"gives back late":              {givesBackLate, []string{"guarded twin", "scenario", "settling never exceeds a limit"}},
		"settles for another":          {settlesForAnother, []string{"guarded twin", "settlements of what is not there"}},
		"settles late":                 {settlesLate, []string{"guarded twin", "scenario", "settlements of what is not there"}},
		"renews what is over":          {renewsExpired, []string{"guarded twin", "scenario", "leases"}},
		"renews for nothing":           {renewsForNothing, []string{"guarded twin", "scenario", "leases"}},
		"releases another's lease":     {releasesAnothers, []string{"guarded twin", "scenario", "leases"}},
		"resets half":                  {resetsHalf, []string{"guarded twin", "scenario", "a reset forgets"}},
		"resets a ban by its name":     {func() storage.Store { return resetsByName{NewModel()} }, []string{"guarded twin", "resets that cannot be"}},
		"ignores late charges":         {ignoresLateCharges, []string{"guarded twin", "scenario", "late charges to a long log", "a late charge counts once, and what still counts"}},
		"charges late twice":           {chargesLateTwice, []string{"guarded twin", "scenario", "a late charge counts once, and what still counts"}},
		"charges late as new":          {chargesLateAsNew, []string{"guarded twin", "scenario", "late charges to a long log", "a late charge counts once, and what still counts"}},
		"replaced by a late charge":    {replacesByLate, []string{"guarded twin", "scenario", "late charges to a long log", "a late charge counts once, and what still counts", "a late charge harms nobody"}},
		"charges late without a cut":   {chargesLateWithoutCut, []string{"guarded twin", "scenario", "a late charge counts once, and what still counts"}},
		"believes late instants":       {believesLateInstants, []string{"guarded twin", "scenario", "a late charge harms nobody"}},
		"forgets late on reset":        {func() storage.Store { return forgetsLateOnReset{NewModel()} }, []string{"guarded twin", "scenario"}},
		"appends late entries":         {appendsLate, []string{"guarded twin", "scenario", "late charges to a long log", "a late charge counts once, and what still counts"}},
		"reads, then writes":           {racyGuards, []string{"guarded linear", "storms"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			noticed := c.noticed
			if testing.Short() { // the last part is the one written for it; the others are campaigns that find it, too
				noticed = noticed[len(noticed)-1:]
			}
			for _, part := range noticed {
				check, ok := parts[part]
				if !ok {
					t.Fatalf("there is no part %q", part)
				}
				if err := check(fleetOf(c.store())); err == nil {
					t.Errorf("%s did not notice", part)
				}
			}
		})
	}
}

// A failure of Twin explains the new steps, and reservations that differ although all answers agree.
func TestTwinExplainsAround(t *testing.T) {
	for name, c := range map[string]struct {
		store storage.Store
		want  []string
	}{
		"a settlement":      {givesBackTwice(), []string{"release nonce", "[reserved for ", "-model +store", "this is enough"}},
		"a ban":             {bansTooShort(), []string{"banned for ", "[penalty after ", "this is enough"}},
		"a reset":           {resetsHalf(), []string{": reset", "this is enough"}},
		"a repeat":          {forgetsReplays(), []string{"[call ", "budget", "this is enough"}},
		"only reservations": {&forgetful{NewModel()}, []string{"the reservations differ", "[reserved for ", "this is enough"}},
	} {
		_, err := Suite{}.twin(fleetOf(c.store), 1, 100_000)
		if err == nil {
			t.Errorf("%s: not noticed", name)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: no %q in:\n%v", name, want, err)
			}
		}
	}
}

// forgetful reports no reservations.
type forgetful struct{ *Model }

func (forgetful) Reservations(context.Context, algorithm.Instant, storage.Subject, int) ([]storage.Reservation, int64, error) {
	return nil, 0, nil
}
