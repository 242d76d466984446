package console

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func get(t *testing.T, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.URL.Path = path
	Handler().ServeHTTP(w, r)
	return w
}

// A path that is not a file gets the page, which is never cached. Hidden files are not served.
func TestScreens(t *testing.T) {
	page := string(unbuilt)
	if content, err := dist.ReadFile("dist/index.html"); err == nil {
		page = string(content)
	}
	for _, path := range []string{"/", "/rules/edit", "/index.html", "/.keep", "/../console.go", "/assets/../.keep"} {
		w := get(t, path)
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), page) || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v %.100s", path, w.Code, w.Header(), w.Body)
		}
	}
	if w := get(t, "/assets/none.js"); w.Code != http.StatusNotFound {
		t.Errorf("a file that there is not: %d %.100s", w.Code, w.Body)
	}
}

// Files whose names change with their content are kept for good.
func TestFiles(t *testing.T) {
	if !Built() {
		t.Skip("the console is not in this build; make console")
	}
	files, err := fs.Glob(dist, "dist/assets/*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range append(files, "dist/icon.svg") {
		content, err := dist.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		w := get(t, strings.TrimPrefix(file, "dist"))
		kept := strings.Contains(w.Header().Get("Cache-Control"), "immutable")
		if w.Code != http.StatusOK || w.Body.String() != string(content) || kept != strings.Contains(file, "/assets/") {
			t.Errorf("%s: %d %v", file, w.Code, w.Header())
		}
	}
}
