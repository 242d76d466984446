//go:build linux

package survive

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Paths are matched exactly: what ignores case, slashes and parameters is the matter of TestPathSpellings.
const pathRules = `
path_matching: exact
rules:
  - {name: admin, match: {path: "/admin/{rest...}"}, key: [], ` + counted + `}
  - {name: public, match: {path: "/public/{rest...}"}, key: [], ` + counted + `}
  - {name: chat, match: {path: "/api/v1/chat"}, key: [], ` + counted + `}
  - {name: users, match: {path: "/users/{id}/posts"}, key: [], ` + counted + `}
  - {name: root, match: {path: /}, key: [], ` + counted + `}
  - {name: other, key: [], ` + counted + `}
`

// ruleFor says which rule a path is for, by what its segments say. It knows nothing about Penstock.
func ruleFor(segments []string) string {
	switch {
	case len(segments) > 1 && segments[0] == "admin":
		return "admin"
	case len(segments) > 1 && segments[0] == "public":
		return "public"
	case slices.Equal(segments, []string{"api", "v1", "chat"}):
		return "chat"
	case len(segments) == 3 && segments[0] == "users" && segments[1] != "" && segments[2] == "posts":
		return "users"
	case len(segments) == 1 && segments[0] == "":
		return "root"
	}
	return "other"
}

// However a path is spelt, the rule that counts is the one for the path that the upstream gets, and
// that is one which every server reads alike.
func TestOddPaths(t *testing.T) {
	t.Parallel()
	upstream := newUpstream(t, func(w http.ResponseWriter, req *http.Request) { w.Header().Set("X-Saw", "<"+req.RequestURI+">") })
	n := start(t, setup{rules: pathRules, config: fmt.Sprintf("upstreams: [{url: %q}]\n", upstream)})
	fates := map[string]int{}
	n.sendPaths(oddPaths(4000*longer), fates, func(path string, r reply) string {
		saw := r.saw()
		segments, err := read(saw)
		if err != nil {
			t.Errorf("%q is forwarded as %q: %v", path, saw, err)
			return "wrong"
		}
		return ruleFor(segments)
	})
	t.Logf("rules that counted: %v", fates)
	for _, fate := range []string{"refused", "admin", "public", "chat", "users", "root", "other"} {
		if fates[fate] == 0 {
			t.Errorf("no path was for %s: the corpus has lost its point", fate)
		}
	}
	n.isWell(maxMiB)
}

// nginx decodes and resolves a path by itself, escaped slashes too. The path that it serves is the one
// that was counted.
func TestOddPathsAtNginx(t *testing.T) {
	t.Parallel()
	n := start(t, setup{rules: pathRules, config: fmt.Sprintf("upstreams: [{url: %q}]\n", newNginxWitness(t).url)})
	n.sendPaths(oddPaths(1000*longer), map[string]int{}, func(_ string, r reply) string {
		return ruleFor(strings.Split(strings.TrimPrefix(r.saw(), "/"), "/"))
	})
	n.isWell(maxMiB)
}

// saw is the path that the upstream says it was asked for.
func (r reply) saw() string { return strings.Trim(r.header.Get("X-Saw"), "<>") }

var policy = regexp.MustCompile(`"(\w+)"`)

// sendPaths asks for paths, and compares the rules that the answers name with the one that want
// takes from the answer. Every path is counted by other too.
func (n *node) sendPaths(paths []string, fates map[string]int, want func(path string, r reply) string) {
	texts := make([]string, len(paths))
	for i, path := range paths {
		texts[i] = "GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n"
	}
	got := make(chan func(), len(paths))
	ask(n.t, n.addresses["gateway"], texts, func(text string, r reply) {
		got <- func() { // in one goroutine
			path := strings.Split(text, " ")[1]
			if r.status == http.StatusBadRequest {
				fates["refused"]++
				return
			}
			if r.status != http.StatusOK {
				n.t.Errorf("%q: status %d", path, r.status)
				return
			}
			var rules []string
			for _, found := range policy.FindAllStringSubmatch(r.header.Get("RateLimit-Policy"), -1) {
				rules = append(rules, found[1])
			}
			rule := want(path, r)
			fates[rule]++
			expected := []string{rule, "other"}
			slices.Sort(rules)
			slices.Sort(expected)
			if expected = slices.Compact(expected); !slices.Equal(rules, expected) {
				n.t.Errorf("%q, to the upstream %q: counted by %v, want %v", path, r.saw(), rules, expected)
			}
		}
	})
	close(got)
	for look := range got {
		look()
	}
}

// read takes a path apart. It fails on what servers read in different ways.
func read(target string) (segments []string, err error) {
	path, _, _ := strings.Cut(target, "?")
	path, isAbsolute := strings.CutPrefix(path, "/")
	if !isAbsolute {
		return nil, fmt.Errorf("it does not begin with a slash")
	}
	raw := strings.Split(path, "/")
	for i, segment := range raw {
		text, err := url.PathUnescape(segment)
		switch {
		case err != nil:
			return nil, err
		case text == "" && i < len(raw)-1:
			return nil, fmt.Errorf("it has an empty segment")
		case text == ".", text == "..", strings.HasPrefix(text, "..;"), strings.HasPrefix(text, ".;"):
			return nil, fmt.Errorf("it has a dot segment")
		case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' }):
			return nil, fmt.Errorf("it has a control character or a backslash")
		}
		segments = append(segments, text)
	}
	return segments, nil
}

// oddPaths spells paths in odd ways, several at once: the same ones every time.
func oddPaths(count int) []string {
	random := rand.New(rand.NewPCG(3, 1))
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	paths := []string{"/", "//", "/.", "/..", "/%2e", "/%2E%2E/", "http://a/admin", "HTTP://b/admin/x?y", "http://a", "/?/admin", "/%3f/admin", "/admin?/../public", "/admin/x%23/../.."}
	for len(paths) < count {
		path := pick("/admin/users", "/admin", "/public/a/b", "/api/v1/chat", "/users/7/posts", "/", "/public/", "/other/x")
		for range 1 + random.IntN(3) {
			at := random.IntN(len(path))
			before, after := path[:at], path[at:]
			switch random.IntN(6) {
			case 0: // a character as its escape
				if c := after[0]; c != '%' {
					path = before + fmt.Sprintf(pick("%%%02x", "%%%02X", "%%25%02x"), c) + after[1:]
				}
			case 1: // something between two segments
				if slash := strings.IndexByte(after, '/'); slash >= 0 {
					odd := pick("/", "/.", "/./.", "//", "/x/..", "/admin/..", "/public/../", "/..", "/%2e", "/%2E%2e", "/.%2e", "/x/%2e%2E", "/...", "/..;", "/..;a=b", "/;", "/.;/", "/%2e%2e%3b", "/x%2f..", "/..%2f", "/%2f", "/%5c..", "/..\\", "\\", "/%00", "/%c0%ae%c0%ae", "/%e0%80%af", "/．．", "/%252e%252e", "/ ", "/%20", "/%09", "/%0d%0a", "/~", "/*")
					path = before + after[:slash] + odd + after[slash:]
					path = strings.ReplaceAll(path, " ", "+")
				}
			case 2: // something within
				path = before + pick("%", "%2", "%zz", "%00", "%7f", "%ff", "%c3%a9", "é", ";", ";x=1", "%3b", "%3B", "%2f", "%2F", "%5C", ":", "@", "&", "=", "+", "$", "!", "'", "(", ")", "*", ",", "%23", "%3F", "%25", "~", "%7e", "-", "%2d", "[", "]", "|", "^", "`", "{", "\"", "<") + after
			case 3: // its end
				path += pick("/", "//", "/.", "/..", "/%2e", ".", "%20", "%2f", ";", "?", "?x=/admin", "/*", "%00", "/../admin", "/../../public", "..", "%2e%2e")
			case 4: // its beginning
				path = pick("/", "/.", "/..", "//", "/%2e%2e", "/public/..", "/admin/..", "/x/../..", "http://a", "http://a:80/", "https://b", "/%2f", "/./") + path
			case 5:
				path = before + strings.ToUpper(after[:1]) + after[1:]
			}
		}
		paths = append(paths, path)
	}
	return paths
}
