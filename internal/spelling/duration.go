package spelling

import (
	"strconv"
	"strings"
	"time"
)

// Duration formats a duration as people write it: 1m instead of 1m0s, 366d instead of 8784h0m0s.
func Duration(d time.Duration) string {
	const day = 24 * time.Hour
	if d < 0 {
		return d.String()
	}
	text := ""
	if days := d / day; days > 0 {
		text = strconv.FormatInt(int64(days), 10) + "d"
		if d %= day; d == 0 {
			return text
		}
	}
	rest := d.String()
	if strings.HasSuffix(rest, "m0s") {
		rest = strings.TrimSuffix(rest, "0s")
	}
	if strings.HasSuffix(rest, "h0m") {
		rest = strings.TrimSuffix(rest, "0m")
	}
	return text + rest
}
