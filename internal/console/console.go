package console

import (
	"bytes"
	"embed"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed all:dist
var dist embed.FS

//go:embed unbuilt.html
var unbuilt []byte

// Built tells whether the console is in this binary.
func Built() bool {
	_, err := fs.Stat(dist, "dist/index.html")
	return err == nil
}

// Handler serves the console. Browsers may cache files whose names change with their content
// forever, but never the page itself. A path that is not a file is a screen, which the page shows.
func Handler() http.Handler {
	page := unbuilt
	if built, err := dist.ReadFile("dist/index.html"); err == nil {
		page = built
	}
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(path.Clean("/"+r.URL.Path), "/")
		if content, err := dist.ReadFile("dist/" + name); err == nil && name != "index.html" && !strings.HasPrefix(name, ".") {
			if strings.HasPrefix(name, "assets/") {
				rw.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
			}
			http.ServeContent(rw, r, name, time.Time{}, bytes.NewReader(content))
			return
		}
		if strings.HasPrefix(name, "assets/") {
			http.NotFound(rw, r)
			return
		}
		rw.Header().Set("Content-Type", "text/html; charset=utf-8")
		rw.Header().Set("Cache-Control", "no-store")
		http.ServeContent(rw, r, "index.html", time.Time{}, bytes.NewReader(page))
	})
}
