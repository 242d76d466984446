package api

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/ipform"
)

// A proxy can cache denials. It sends the names of the attributes in its cache key (cache_by), and the key itself. A
// denial can be cached only if the key holds exactly the values that were decided by, and if every rule that matters
// looks at these attributes only. So no client gets the denial of another, even if the proxy is misconfigured.

const (
	cacheKeyHeader    = "X-Penstock-Cache-Key"
	cacheKeySeparator = "|"
	maxCacheBy        = 16 // attributes
)

// maxStale is how long a proxy can keep answering with a denial after an operator has lifted it.
const maxStale = 5 * time.Second

// cacheBy returns the attributes in the cache key of a proxy; none: it caches nothing.
func cacheBy(u *url.URL) ([]string, error) {
	text := u.Query().Get("cache_by")
	if text == "" {
		return nil, nil
	}
	names := strings.Split(text, ",")
	if len(names) > maxCacheBy {
		return nil, fmt.Errorf("cache_by has %d attributes; at most %d", len(names), maxCacheBy)
	}
	for i, name := range names {
		if name == "" {
			return nil, fmt.Errorf("cache_by is %.60q; it lists attributes, as in ip,user", text)
		}
		for _, other := range names[:i] {
			if name == other {
				return nil, fmt.Errorf("cache_by has %.60q twice", name)
			}
		}
	}
	return names, nil
}

// cachedAttributes returns the attributes whose values the proxy's cache key holds: none unless the key consists of the
// values of all names, with separators in between. Attributes that the request lacks are empty in the key.
func (a *api) cachedAttributes(names []string, asked *http.Request, c *penstock.Call) (held []string) {
	key, err := atMostOne(asked.Header, cacheKeyHeader)
	values := strings.Split(key, cacheKeySeparator)
	if err != nil || len(names) == 0 || len(values) != len(names) {
		return nil
	}
	for i, name := range names {
		value, _ := c.Attribute(name)
		if value != values[i] && !(name == "ip" && a.isClient(values[i], asked)) {
			return nil
		}
		if value != "" {
			held = append(held, name)
		}
	}
	return held
}

// isClient reports whether a text is the address of the client. The attribute ip may be that of its network.
func (a *api) isClient(text string, asked *http.Request) bool {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return false
	}
	client, err := a.Reader.ClientIP(asked)
	return err == nil && client == ipform.Canonical(addr)
}

// allowCaching tells nginx, and Lua in HAProxy, for how many seconds to answer with the same denial. They start to
// count when they get the answer, and count the second in which it ends in full. The last second is for that.
func allowCaching(h http.Header, howLong time.Duration) {
	const late = 100 * time.Millisecond // for the answer to arrive
	if seconds := min(howLong-late, maxStale)/time.Second - 1; seconds > 0 {
		h.Set("X-Accel-Expires", strconv.FormatInt(int64(seconds), 10))
	}
}
