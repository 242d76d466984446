//go:build linux

package survive

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

const twiceRules = `
attributes: {user: {header: X-User-Id}, device: {cookie: device_id}, account: {query: account}, subject: {claim: sub}}
rules:
  - {name: users, key: [user], ` + counted + `}
  - {name: devices, key: [device], ` + counted + `}
  - {name: accounts, key: [account], ` + counted + `}
  - {name: subjects, key: [subject], ` + counted + `}
`

const tokenSecret = "0123456789abcdef0123456789abcdef"

func token(t *testing.T, subject string) string {
	t.Helper()
	text, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": subject, "exp": time.Now().Add(24 * time.Hour).Unix()}).SignedString([]byte(tokenSecret))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A doubledRequest is a request that says who sends it more than once: as a first and as b.
type doubledRequest struct {
	rule, attribute string
	query           string
	header          fields
}

// doubles returns those of every kind, with tokens of a and b.
func doubles(a, b, tokenPart string) (all []doubledRequest) {
	header := func(lines ...[2]string) { all = append(all, doubledRequest{"users", "user", "", lines}) }
	for _, alias := range []string{"X-User-Id", "x-user-id", "X_User_Id", "X-User_Id", "X.User.Id", "x_user-id", "X~User~Id"} {
		header([2]string{"X-User-Id", "a"}, [2]string{alias, "b"})
		header([2]string{alias, "b"}, [2]string{"X-User-Id", "a"})
		header([2]string{"X-User-Id", "a"}, [2]string{"Connection", alias}, [2]string{alias, "b"})
	}
	header([2]string{"X-User-Id", "a"}, [2]string{"X-User-Id", ""})
	for _, cookies := range [][]string{
		{"device_id=a; device_id=b"}, {"device_id=a", "device_id=b"}, {"x=1; device_id=a", "y=2; device_id=b"}, {"device_id=a;device_id=b"}, {"device_id=a; DEVICE_ID=b"},
		{"device_id=a, device_id=b"}, {"x=1,device_id=b; device_id=a"}, {"device_id=a; device_id"}, {"device_id=a; device_id=\"b\""}, {"device_id=\"b; device_id=a"},
	} {
		lines := fields{}
		for _, line := range cookies {
			lines = append(lines, [2]string{"Cookie", line})
		}
		all = append(all, doubledRequest{"devices", "device", "", lines})
	}
	for _, query := range []string{"account=a&account=b", "account=a&x=1&account=b", "account=a&%61ccount=b", "account=a&Account=b", "account=a&account[]=b", "account[]=b&account=a", "account=a&account", "account=a;account=b", "account=a&account%5Bx%5D=b"} {
		all = append(all, doubledRequest{"accounts", "account", query, nil})
	}
	if name, ok := strings.CutPrefix(tokenPart, "cookie "); ok {
		all = append(all,
			doubledRequest{"subjects", "subject", "", fields{{"Cookie", name + "=" + a + "; " + name + "=" + b}}},
			doubledRequest{"subjects", "subject", "", fields{{"Cookie", name + "=" + a}, {"Cookie", name + "=" + b}}},
			doubledRequest{"subjects", "subject", "", fields{{"Cookie", name + "=" + a + "; " + name + "=none"}}})
		return all
	}
	for _, alias := range []string{tokenPart, strings.ReplaceAll(tokenPart, "-", "_"), strings.ReplaceAll(tokenPart, "-", ".")} {
		all = append(all,
			doubledRequest{"subjects", "subject", "", fields{{tokenPart, "Bearer " + a}, {alias, "Bearer " + b}}},
			doubledRequest{"subjects", "subject", "", fields{{tokenPart, "Bearer " + a}, {alias, "none"}}})
	}
	return all
}

func (d doubledRequest) text(target string, more ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "GET %s HTTP/1.1\r\nHost: a\r\n", target)
	for _, line := range d.header {
		fmt.Fprintf(&b, "%s: %s\r\n", line[0], line[1])
	}
	return b.String() + strings.Join(more, "") + "Connection: close\r\n\r\n"
}

func (d doubledRequest) target() string {
	if d.query == "" {
		return "/"
	}
	return "/?" + d.query
}

// A request that says twice who sends it is refused, or counted by the one value that the upstream gets.
func TestIdentitySentTwice(t *testing.T) {
	t.Parallel()
	for tokenPart, config := range map[string]string{
		"X-Auth-Token":     "jwt: {secret: " + tokenSecret + ", header: X-Auth-Token}\n",
		"Authorization":    "jwt: {secret: " + tokenSecret + "}\n",
		"cookie auth_data": "jwt: {secret: " + tokenSecret + ", cookie: auth_data}\n",
	} {
		t.Run(tokenPart, func(t *testing.T) {
			upstream := newUpstream(t, func(w http.ResponseWriter, req *http.Request) { w.Header().Set("X-Saw", saw(req)) })
			n := start(t, setup{rules: twiceRules, config: fmt.Sprintf("%sgateway: {h2c: true}\ntrusted_proxies: [127.0.0.1]\nupstreams: [{url: %q}]\n", config, upstream)})
			before, refused := map[string]int{}, 0
			a, b := token(t, "a"), token(t, "b")
			for _, attack := range doubles(a, b, tokenPart) {
				http2 := fields{{":method", "GET"}, {":scheme", "http"}, {":authority", "a"}, {":path", attack.target()}}
				for _, line := range attack.header {
					if line[0] != "Connection" { // which HTTP/2 does not have
						http2 = append(http2, [2]string{strings.ToLower(line[0]), line[1]})
					}
				}
				replies := map[string][]reply{
					"HTTP/1.1":     converse(t, n.addresses["gateway"], attack.text(attack.target())),
					"HTTP/2":       http2Request{header: http2}.send(t, n.addresses["gateway"]),
					"forward-auth": converse(t, n.addresses["http"], attack.text("/v1/auth", "X-Forwarded-Method: GET\r\nX-Forwarded-Uri: "+attack.target()+"\r\nX-Forwarded-For: 192.0.2.1\r\n")),
				}
				for way, all := range replies {
					switch {
					case len(all) != 1 || all[0].status != http.StatusOK && all[0].status != http.StatusBadRequest:
						t.Errorf("%s, %q: %v", way, attack, all)
					case all[0].status == http.StatusBadRequest:
						refused++
					case way == "forward-auth" || attack.rule != "users":
						t.Errorf("%s allowed %q, all of which the upstream gets", way, attack)
					case all[0].saw() == "a":
						before[attack.rule]++
					case all[0].saw() != "": // which is counted as nobody
						t.Errorf("%s, %q: the upstream saw %s", way, attack, all[0].saw())
					}
				}
				if used := n.used(attack.rule, map[string]string{attack.attribute: "a"}); used != before[attack.rule] {
					t.Errorf("%q: %d requests of a were forwarded, %d counted", attack, before[attack.rule], used)
					before[attack.rule] = used
				}
				if used := n.used(attack.rule, map[string]string{attack.attribute: "b"}); used != 0 {
					t.Fatalf("%q: counted as b", attack)
				}
			}
			if refused < 60 || before["users"] == 0 {
				t.Errorf("%d refused, %d forwarded: the corpus has lost its point", refused, before["users"])
			}
			n.isWell(maxMiB)
		})
	}
}

// saw returns the values of all headers that some server reads as X-User-Id.
func saw(req *http.Request) string {
	var values []string
	for name, lines := range req.Header {
		variable := strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
				return r
			}
			return '_'
		}, strings.ToLower(name))
		if variable == "x_user_id" {
			values = append(values, lines...)
		}
	}
	return strings.Join(values, "|")
}
