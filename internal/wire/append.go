package wire

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/penstock-io/penstock"
)

// AppendCall appends a request in the format of ParseCheck, or of ParseReserve if it asks for a reservation.
func AppendCall(b []byte, c *penstock.Call) []byte {
	b = append(b, '{')
	if c.Domain != "" {
		b = appendText(append(b, `"domain":`...), c.Domain)
		b = append(b, ',')
	}
	b = append(b, `"attributes":{`...)
	for i := range c.Attributes {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(b, c.Attributes[i].Name)
		b = appendText(append(b, ':'), c.Attributes[i].Value)
	}
	b = strconv.AppendInt(append(b, `},"cost":`...), c.Cost, 10)
	if c.ID != "" {
		b = appendText(append(b, `,"id":`...), c.ID)
	}
	if c.MaxDelay > 0 {
		// A delay beyond the bound of the format is reduced to that bound.
		b = strconv.AppendInt(append(b, `,"max_delay_ms":`...), min(c.MaxDelay, MaxDelay).Milliseconds(), 10)
	}
	if c.Reserve && c.TTL != 0 {
		b = appendMilliseconds(append(b, `,"ttl_ms":`...), c.TTL)
	}
	return append(b, '}')
}

// AppendBatch appends requests in the format of ParseBatch.
func AppendBatch(b []byte, calls []penstock.Call) []byte {
	b = append(b, `{"calls":[`...)
	for i := range calls {
		if i > 0 {
			b = append(b, ',')
		}
		b = AppendCall(b, &calls[i])
	}
	return append(b, `]}`...)
}

// AppendSettle appends an actual cost in the format of ParseSettle.
func AppendSettle(b []byte, cost int64) []byte {
	return append(strconv.AppendInt(append(b, `{"cost":`...), cost, 10), '}')
}

// AppendRenew appends a time to live in the format of ParseRenew.
func AppendRenew(b []byte, ttl time.Duration) []byte {
	if ttl == 0 {
		return append(b, `{}`...)
	}
	return append(appendMilliseconds(append(b, `{"ttl_ms":`...), ttl), '}')
}

// AppendVerdict appends a verdict in the format of ParseVerdict.
func AppendVerdict(b []byte, v *penstock.Verdict) []byte {
	return append(appendVerdict(b, v), '}')
}

// AppendResults appends the verdicts of a batch in the format of ParseResults. A request that could not be decided
// has an error.
func AppendResults(b []byte, verdicts []penstock.Verdict, errs []error) []byte {
	b = append(b, `{"results":[`...)
	for i := range verdicts {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendVerdict(b, &verdicts[i])
		if errs[i] != nil {
			b = appendText(append(b, `,"error":`...), errs[i].Error())
		}
		b = append(b, '}')
	}
	return append(b, `]}`...)
}

// appendVerdict does not close the object.
func appendVerdict(b []byte, v *penstock.Verdict) []byte {
	d := &v.Decision
	b = strconv.AppendBool(append(b, `{"allowed":`...), v.Allowed)
	b = appendText(append(b, `,"rule":`...), v.Rule)
	b = appendText(append(b, `,"reason":`...), v.Reason.String())
	b = appendText(append(b, `,"quality":`...), v.Quality.String())
	b = strconv.AppendInt(append(b, `,"limit":`...), d.Limit, 10)
	b = strconv.AppendInt(append(b, `,"remaining":`...), d.Remaining, 10)
	b = appendMilliseconds(append(b, `,"retry_after_ms":`...), d.RetryAfter)
	b = appendMilliseconds(append(b, `,"reset_after_ms":`...), d.ResetAfter)
	b = appendMilliseconds(append(b, `,"delay_ms":`...), v.Delay)
	b = strconv.AppendBool(append(b, `,"duplicate":`...), v.Duplicate)
	b = append(b, `,"limits":[`...)
	for i := range v.Limits {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendLimit(b, &v.Limits[i])
	}
	b = append(b, ']')
	if v.Reservation != "" {
		b = appendText(append(b, `,"reservation":`...), v.Reservation)
	}
	if v.ReservedFor != 0 {
		b = appendMilliseconds(append(b, `,"reserved_for_ms":`...), v.ReservedFor)
	}
	if v.OriginalReservation != "" {
		b = appendText(append(b, `,"original_reservation":`...), v.OriginalReservation)
	}
	if v.BannedUntil != 0 {
		b = appendMilliseconds(append(b, `,"banned_for_ms":`...), max(0, v.BannedUntil.Sub(v.Now)))
	}
	if v.RulesVersion != 0 {
		b = strconv.AppendInt(append(b, `,"rules_version":`...), v.RulesVersion, 10)
	}
	return b
}

func appendLimit(b []byte, l *penstock.LimitVerdict) []byte {
	b = appendText(append(b, `{"rule":`...), l.Rule)
	b = appendText(append(b, `,"algorithm":`...), l.Algorithm.String())
	b = strconv.AppendInt(append(b, `,"limit":`...), l.Limit, 10)
	b = appendMilliseconds(append(b, `,"window_ms":`...), l.Window)
	b = strconv.AppendBool(append(b, `,"allowed":`...), l.Allowed)
	b = strconv.AppendInt(append(b, `,"remaining":`...), l.Remaining, 10)
	b = appendMilliseconds(append(b, `,"retry_after_ms":`...), l.RetryAfter)
	b = appendMilliseconds(append(b, `,"reset_after_ms":`...), l.ResetAfter)
	b = strconv.AppendInt(append(b, `,"used":`...), l.Used, 10)
	b = appendText(append(b, `,"policy":`...), l.Policy)
	b = strconv.AppendInt(append(b, `,"count":`...), l.Count, 10)
	if l.Refill != penstock.Continuous {
		b = appendText(append(b, `,"refill":`...), l.Refill.String())
	}
	if l.Delay != 0 {
		b = appendMilliseconds(append(b, `,"delay_ms":`...), l.Delay)
	}
	if l.Shadow {
		b = append(b, `,"shadow":true`...)
	}
	if l.Banned {
		b = append(b, `,"banned":true`...)
	}
	return append(b, '}')
}

// appendMilliseconds rounds up, so that a client that waits this long has waited long enough. Never is null.
func appendMilliseconds(b []byte, d time.Duration) []byte {
	if d == penstock.Never {
		return append(b, `null`...)
	}
	ms := d.Milliseconds()
	if d > time.Duration(ms)*time.Millisecond {
		ms++
	}
	return strconv.AppendInt(b, ms, 10)
}

func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, _ := json.Marshal(s) // cannot fail for a string
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
