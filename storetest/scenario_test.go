package storetest

import (
	"strings"
	"testing"
)

// Every error in a scenario is reported with its line, so that a misspelt expectation is never ignored.
func TestScenarioMistakes(t *testing.T) {
	const limit = "limit fixed_window 5/60s\n"
	const two = limit + "limit fixed_window 5/1h\n"
	for _, c := range []struct{ text, want string }{
		{"", "x: no call is made"},
		{limit, "no call is made"},
		{"limt fixed_window 5/60s", `x:1: unknown word "limt"`},
		{"limit fixed_windo 5/60s", `x:1: unknown algorithm "fixed_windo"`},
		{"limit fixed_window 5", "x:1: want count/window"},
		{"limit fixed_window five/60s", `x:1: not a number: "five"`},
		{"limit fixed_window 5/sixty", "x:1: neither a period nor a duration"},
		{"limit fixed_window 5/60s bust 3", `x:1: unknown word "bust"`},
		{"limit fixed_window 5/60s burst 3", "x:1: invalid limit"},
		{"limit fixed_window 5/60s zone Nowhere/Land", "x:1: unknown time zone"},
		{"at 0s: 1 call passes", "x:1: a call is made before there is a limit"},
		{limit + "at 0s 1 call passes", "x:2: want"},
		{limit + "at noon: 1 call passes", `x:2: neither an RFC 3339 time nor a duration: "noon"`},
		{limit + "at 0s: 1 call", "x:2: neither pass nor denied"},
		{limit + "at 0s: 0 calls pass", "x:2: 0 calls"},
		{limit + "at 0s: one call passes", `x:2: not a number: "one"`},
		{limit + "at 0s: 1 cal passes", `x:2: want call or calls, got "cal"`},
		{limit + "at 0s: 1 call passes remaining 3", `x:2: unknown word "remaining" after "passes"`},
		{limit + "at 0s: 1 call maybe passes", `x:2: unknown word "maybe"`},
		{limit + "at 0s: peek of 3 passes", "x:2: a peek costs nothing"},
		{limit + "at 0s: 1 call passes, remainig 3", `x:2: in "remainig 3": unknown word "remainig"`},
		{limit + "at 0s: 1 call passes, remaining 3 4", `unknown word "4"`},
		{limit + "at 0s: 1 call passes, remaining", `x:2: in "remaining": not a number: ""`},
		{limit + "at 0s: 1 call denied, retry 5s", "want \"retry after\" or \"retry never\""},
		{limit + "at 0s: 1 call denied, reset 5s", "want \"reset after\""},
		{limit + "at 0s: 1 call denied, limit 2 used 5", "there is no limit 2"},
		{two + "at 0s: 1 call denied, used 5", `of which limit? write "limit 1 used"`},
		{limit + "at 0s: 1 call passes\nlimit fixed_window 5/1h", "x:3: a limit appears after calls"},
		{"alone " + limit + limit, "x:2: limits that stand together come before"},
		{limit + "limit 2 changes to fixed_window 6/60s", "x:2: limit 2 changes, but there are 1"},
		{limit + "limit changes into fixed_window 6/60s", "x:2: want \"changes to\""},
		{limit + "penalty after 3 within 60s bans 1m,soon forgive 1h", "x:2: time: invalid duration"},
		{limit + "penalty after 3 within 60s forgive 1h", "x:2: invalid penalty: bans"},
		{limit + "penalty before 3", `x:2: unknown word "before" in a penalty`},
		{limit + "dedup ttl 5m replays 1 budget 1", "x:2: want count/window"},
		{limit + "dedup ttl 5m replays 0 budget 1/60s", "x:2: invalid dedup: max_replays"},
		{limit + "dedup for 5m", `x:2: unknown word "for" in a dedup`},
		{limit + "reserve 10m 5m", `x:2: unknown word "5m"`},
		{limit + "at 0s: 1 call with name a passes", `x:2: want "with nonce" or "with id", got "name"`},
		{limit + "at 0s: 1 call passes, banned 5m", `x:2: in "banned 5m": want "banned for"`},
		{limit + "at 0s: 1 call passes, not used 5", `want "not repeated" or "not banned"`},
		{limit + "at 0s: 1 call passes, strikes many", `not a number: "many"`},
		{limit + "at 0s: settle nonce 7 of 3 maybe", `x:2: unknown word "maybe"; the verdict is one of`},
		{limit + "at 0s: settle nonce 7 of 3", `x:2: unknown word ""`},
		{limit + "at 0s: settle nonce 7 of 3 overage some passes", `x:2: unknown overage "some"`},
		{limit + "at 0s: release nonce 7 passes now", `x:2: unknown word "now"`},
		{limit + "at 0s: release nonce 7 passes, remainig 3", `unknown word "remainig"`},
		{limit + "at 0s: ban 1h", "x:2: want \"ban for\""},
		{limit + "at 0s: charge 3 of 0s", "x:2: want \"charge late\""},
		{limit + "at 0s: charge late 3 at 0s", "x:2: want \"<amount> of <instant>\""},
		{limit + "at 0s: charge late 3 of 0s, 1 of 4s", "x:2: want \"with nonce N\""},
		{limit + "at 0s: charge late 3 of 0s with nonce 7 now", `x:2: unknown word "now"`},
		{limit + "at 0s: lift, used 3", `x:2: nothing can be expected of "lift"`},
	} {
		_, err := parseScenario("x", c.text)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("parse %q: error is %v, want one with %q", c.text, err, c.want)
		}
	}
}

// An expectation that does not hold fails, and the failure names the line: one wrong value each.
func TestScenarioExpectationsBind(t *testing.T) {
	const head = "limit leaky_bucket 2/60s queue 1\nalone limit fixed_window 3/60s\nat 0s: 1 call queueing passes\n"
	for _, wrong := range []string{
		"at 0s: 1 call queueing denied",
		"at 0s: 1 call queueing passes, limit 1 used 1",
		"at 0s: 1 call queueing passes, limit 1 remaining 1",
		"at 0s: 1 call queueing passes, limit 1 delay 29s",
		"at 0s: 1 call queueing passes, limit 1 reset after 59s",
		"at 0s: 1 call queueing passes, limit 2 denies",
		"at 0s: 1 call queueing passes, retry after 1s",
		"at 0s: 1 call denied, retry after 29s",
		"at 0s: 1 call of 3 denied, limit 1 retry after 30s",
		"at 0s: 1 call of 2 denied, retry never",
		"at 0s: peek denied",
	} {
		sc, err := parseScenario("x", head+wrong)
		if err != nil {
			t.Fatal(err)
		}
		if err := sc.play(fleetOf(NewModel())); err == nil || !strings.Contains(err.Error(), "x:4: ") {
			t.Errorf("%q: error is %v, want one at x:4", wrong, err)
		}
	}
}

func TestScenarioExpectationsAroundBind(t *testing.T) {
	const head = "limit fixed_window 2/60s\npenalty after 2 within 60s bans 1m forgive 1h\ndedup ttl 60s replays 1 budget 5/60s\nreserve 60s\n" +
		"at 0s: 1 call with nonce 7 with id a passes, used 1, not repeated, not banned, strikes 0, bans 0\n"
	for _, wrong := range []string{
		"at 0s: 1 call with id a passes, not repeated",
		"at 0s: 1 call with id b passes, repeated",
		"at 0s: 1 call passes, banned for 1m",
		"at 0s: 1 call passes, strikes 1",
		"at 0s: 1 call passes, bans 1",
		"at 0s: release nonce 7 again",
		"at 0s: release nonce 7 passes, used 1",
		"at 0s: release nonce 7 unknown",
		"at 0s: release nonce 7 passes, not banned", // has no effect here
		"at 0s: settle nonce 7 of 3 passes",
		"at 0s: settle nonce 7 of 3 overage allow denied",
		"at 0s: settle nonce 8 of 3 passes",
		"at 60s: release nonce 7 closed",
		"at 0s: renew nonce 7 for 1h closed",
		"at 0s: renew nonce 7 for 0s passes",
		"at 0s: ban for 1ns",
	} {
		sc, err := parseScenario("x", head+wrong)
		if err != nil {
			t.Fatal(err)
		}
		if err := sc.play(fleetOf(NewModel())); err == nil || !strings.Contains(err.Error(), "x:6: ") {
			t.Errorf("%q: error is %v, want one at x:6", wrong, err)
		}
	}
}

func FuzzScenario(f *testing.F) {
	f.Add("limit fixed_window 5/60s\nat 0s: 1 call passes, used 1")
	f.Add("limit fixed_window 3/month zone Europe/Berlin\nlimit 1 changes to fixed_window 4/month\nat -1d2h: peek passes")
	f.Add("limit fixed_window 3/60s overdraft 2\npenalty after 1 within 1m bans 1m,5m forgive 1h\nreserve 1m\nat 0s: settle nonce 7 of 3 overage debt passes, used 3")
	f.Add("limit concurrency 3/60s\ndedup ttl 1m replays 1 budget 1/day\nat 0s: 1 call with id a passes, repeated, banned for 1m\nat 0s: ban for 1m\nat 0s: reset")
	f.Fuzz(func(_ *testing.T, text string) { _, _ = parseScenario("x", text) }) // must not panic
}
