package httplimit

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html"
	"mime"
	"strconv"
	"strings"

	"github.com/penstock-io/penstock/internal/problem"
)

// The page is self-contained: it loads nothing, runs no scripts, and its Content-Security-Policy says so.

const pageStyle = `:root{color-scheme:light dark}` +
	`body{font:1.05rem/1.6 system-ui,sans-serif;max-width:34rem;margin:18vh auto 0;padding:0 1.5rem}` +
	`h1{font-size:1.5rem;margin:0 0 .5rem}small{opacity:.7}`

const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>%[1]s</title>
<style>%[2]s</style>
</head>
<body>
<main>
<h1>%[1]s</h1>
<p>%[3]s</p>
<p><small>%[4]s (%[5]d)</small></p>
</main>
</body>
</html>
`

var pagePolicy = func() []string {
	sum := sha256.Sum256([]byte(pageStyle))
	return []string{"default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; frame-ancestors 'none'"}
}()

func (p *denialBody) appendPage(b []byte) []byte {
	return fmt.Appendf(b, page, html.EscapeString(p.Message), pageStyle, html.EscapeString(string(p.Detail)), html.EscapeString(p.Title), p.Status)
}

// prefersPage reports whether a client prefers HTML to JSON. Without a preference it gets JSON.
func prefersPage(accept string) bool {
	if accept == "" || accept == "*/*" {
		return false // what most programs send
	}
	const read = 1 << 10 // bytes: clients that prefer a page say so early
	accept = accept[:min(len(accept), read)]
	var page, data preference
	for part := range strings.SplitSeq(accept, ",") {
		media, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		q, err := strconv.ParseFloat(params["q"], 64)
		if err != nil {
			q = 1
		}
		page.apply(media, q, "text/*", "text/html")
		data.apply(media, q, "application/*", "application/json", problem.MediaType)
	}
	return page.q > data.q
}

// A preference is how much a client prefers a media type.
type preference struct {
	q     float64
	exact int // how specific the media range is: the most specific one counts
}

// apply applies a media range. names are the names of the media type, less specific ones first.
func (p *preference) apply(media string, q float64, names ...string) {
	exact := 0
	if media == "*/*" {
		exact = 1
	}
	for i, name := range names {
		if media == name {
			exact = min(i, 1) + 2
		}
	}
	switch {
	case exact == 0 || exact < p.exact:
	case exact == p.exact:
		p.q = max(p.q, q)
	default:
		p.q, p.exact = q, exact
	}
}
