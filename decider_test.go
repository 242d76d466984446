package penstock

import (
	"slices"
	"testing"

	"github.com/penstock-io/penstock/internal/enum/enumtest"
)

func TestVerdictReset(t *testing.T) {
	v := Verdict{
		Allowed: true, Reason: ReasonBanned, Quality: QualityLocal, Duplicate: true, Rule: "r", Decision: Decision{Limit: 1}, Delay: 1,
		BannedUntil: 1, Limits: make([]LimitVerdict, 3, 8), Reservation: "x", RulesVersion: 1, Now: 1,
	}
	v.Reset()
	if v.Allowed || v.Reason != ReasonOK || v.Quality != QualityExact || v.Duplicate || v.Rule != "" || v.Decision != (Decision{}) || v.Delay != 0 ||
		v.BannedUntil != 0 || len(v.Limits) != 0 || v.Reservation != "" || v.RulesVersion != 0 || v.Now != 0 {
		t.Errorf("something is left: %+v", v)
	}
	if cap(v.Limits) != 8 {
		t.Errorf("room for %d limits is left of 8", cap(v.Limits))
	}
}

// The names are a contract: programs and people read them.
func TestVerdictNames(t *testing.T) {
	var reasons, qualities []string
	for r := ReasonOK; r <= ReasonBlocked; r++ {
		var back Reason = 99
		if enumtest.ReadBack(t, r, &back); back != r {
			t.Errorf("%v reads back as %v", r, back)
		}
		reasons = append(reasons, r.String())
	}
	for q := QualityExact; q <= QualityClosed; q++ {
		var back Quality = 99
		if enumtest.ReadBack(t, q, &back); back != q {
			t.Errorf("%v reads back as %v", q, back)
		}
		qualities = append(qualities, q.String())
	}
	if want := []string{"ok", "no_rule", "over_limit", "banned", "deny_list", "allow_list", "duplicate", "store_error", "rule_error", "blocked"}; !slices.Equal(reasons, want) {
		t.Errorf("reasons are %q", reasons)
	}
	if want := []string{"exact", "leased", "local", "open", "closed"}; !slices.Equal(qualities, want) {
		t.Errorf("qualities are %q", qualities)
	}
	if got := Reason(200).String() + " " + Quality(200).String(); got != "Reason(200) Quality(200)" {
		t.Errorf("unknown ones are %s", got)
	}
	var r Reason
	if err := r.UnmarshalText([]byte("bored")); err == nil {
		t.Error("bored is no reason")
	}
	var q Quality
	if err := q.UnmarshalText([]byte("")); err == nil {
		t.Error("nothing is no quality")
	}
}
