package onevalue

import (
	"net/http"
	"strings"
	"testing"
)

const refused = "refused"

// told formats a value for the tables in this file.
func told(value string, ok bool, err error) string {
	switch {
	case err != nil:
		return refused
	case !ok:
		return "none"
	}
	return "=" + value
}

func TestHeader(t *testing.T) {
	for want, lines := range map[string][]string{"none": nil, "=": {""}, "=a": {"a"}, "=a, b": {"a, b"}, "=b": {" b"}, "=c": {"c "}, "=d e": {"\t d e \t"}} {
		if got := told(Header(http.Header{"X-User": lines}, "X-User")); got != want {
			t.Errorf("%q: %s, want %s", lines, got, want)
		}
	}
	for _, lines := range [][]string{{"a", "b"}, {"a", "a"}, {"", "a"}, {"a", ""}} {
		if got := told(Header(http.Header{"X-User": lines}, "X-User")); got != refused {
			t.Errorf("%q: %s", lines, got)
		}
	}
}

func TestCheckAliases(t *testing.T) {
	for name, isAlias := range map[string]bool{
		"X-User-Id": false, "X_User_Id": true, "X-User_id": true, "X.user-Id": true, "x-user-id": true, "X_user.id": true, "X-User-Id2": false, "X-Userid": false, "X-User0Id": false, "Y-User-Id": false,
	} {
		if err := CheckAliases(http.Header{"Accept": nil, name: nil}, "X-Other", "X-User-Id"); (err != nil) != isAlias {
			t.Errorf("%s: %v", name, err)
		}
	}
	if CheckAliases(http.Header{"X-User-Id": nil}, "X_user_id") == nil {
		t.Error("the usual spelling is no alias of an unusual one")
	}
}

func TestCookie(t *testing.T) {
	for _, test := range []struct{ lines, want string }{
		{"", "none"},
		{"id=a", "=a"},
		{"x=1; id=a; y=2", "=a"},
		{"x=1;id=a;y=2", "=a"},
		{`id="a b"`, "=a+b"},
		{"id= a", "=a"},
		{"id=  a  ; x=1", "=a"},
		{"id=\ta", refused}, // net/http does not read it
		{"id =a", "=a"},
		{"id", "="},
		{"xid=b; id2=c; id=a", "=a"},
		{"next=/?id=7&id=8; id=a", "=a"},
		{"title=an id of mine; id=a", "=a"},
		{"x=1", "none"},
		{"ID=b", "none"}, // another cookie, unless both are present
		{"x=1,id=b", "none"},

		// Values that Express, werkzeug, Rack or PHP read as one.
		{"id=%61", "=a"},
		{`id="%61"`, "=a"},
		{`id=" a "`, "=a"},
		{"id=%2561", "=%61"},
		{"id=%e9", "=\xe9"},
		{"id=%zz%61%", "=%zza%"},
		{"id=%c3%A9", "=é"},
		{"id=a%20b", "=a+b"},
		{"id=a b", "=a+b"},
		{"id=a+b", "=a+b"},
		{"id=a%2Bb", "=a+b"},
		{"id==a=", "==a="},

		{"id=a; id=b", refused},
		{"id=a\nid=b", refused},
		{"id=a\nx=1; id=b", refused},
		{"id=a;id=a", refused},
		{"id; id=b", refused},
		{"id=; id=b", refused},
		{"id=a; ID=b", refused},
		{"id=a; Id =b", refused},
		{"id=a;\tid=b", refused},
		{"x=1, id=b; id=a", refused},
		{"x=1 id=b; id=a", refused},
		{"id=a; ,id=b", refused},
		{"id=a,id=b", refused},
		{"id=a; id", refused},
		{"id=a\xff", refused}, // net/http does not read it, other servers do
		{"id=a\\; x=1", refused},
		{"id=\xff; id=b", refused},
	} {
		req := &http.Request{Header: http.Header{}}
		if test.lines != "" {
			req.Header["Cookie"] = strings.Split(test.lines, "\n")
		}
		if got := told(Cookie(req, "id")); got != test.want {
			t.Errorf("%q: %s, want %s", test.lines, got, test.want)
		}
	}
}

func TestParameter(t *testing.T) {
	for _, test := range []struct{ query, want string }{
		{"", "none"},
		{"id=a", "=a"},
		{"x=1&id=%61%26&y", "=a&"},
		{"%69d=a", "=a"},
		{"id", "="},
		{"id2=b&xid=c&id=a", "=a"},
		{"ID=b", "none"},
		{"id[number]=1&id[size]=2", "none"}, // other parameters, unless id is present too
		{"&&id=a&&", "=a"},

		{"id=a&id=b", refused},
		{"id=a&id=a", refused},
		{"id=a&%69%64=b", refused},
		{"id&id=b", refused},
		{"id=a&id", refused},
		{"id=a&ID=b", refused},
		{"id[]=a&id=b", refused},
		{"id=a&id[x]=b", refused},
		{"id=a&id%5B%5D=b", refused},
		{"id=a;id=b", refused},
		{"id=a&x=%zz", refused},
	} {
		if got := told(Parameter(test.query, "id")); got != test.want {
			t.Errorf("%q: %s, want %s", test.query, got, test.want)
		}
	}
	if got := told(Parameter("user.id=b&user_id=a", "user_id")); got != refused { // one variable in PHP
		t.Error(got)
	}
	for _, query := range []string{"id=a&%20id=b", "id=a&++id=b", "id=a&id%00x=b"} { // one parameter in PHP
		if got := told(Parameter(query, "id")); got != refused {
			t.Errorf("%q: %s", query, got)
		}
	}
	if got := told(Parameter("page[size]=1&page[number]=2", "page[size]")); got != "=1" {
		t.Error(got)
	}
}

// PHP turns names into variables.
func TestCookieAliases(t *testing.T) {
	for line, want := range map[string]string{"user_id=a; user.id=b": refused, "user.id=b; user_id=a": refused, "user.id=b": "none", "user_id=a; userid=b": "=a"} {
		req := &http.Request{Header: http.Header{"Cookie": {line}}}
		if got := told(Cookie(req, "user_id")); got != want {
			t.Errorf("%q: %s, want %s", line, got, want)
		}
	}
}

// FuzzCookie checks that no value is returned if net/http finds several cookies of a name.
func FuzzCookie(f *testing.F) {
	for _, seed := range []string{"id=a; id=b", "id=a, id=b", "id", "x=id; id =\"q\"", ";;id=a ;", "\tid\t=\t;"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		req := &http.Request{Header: http.Header{"Cookie": {line}}}
		all := req.CookiesNamed("id")
		value, ok, err := Cookie(req, "id")
		switch {
		case len(all) > 1 && err == nil, len(all) == 1 && err == nil && (!ok || value != cookieForm(all[0].Value)), len(all) == 0 && ok:
			t.Errorf("%q: %q, %v, %v; net/http reads %d", line, value, ok, err, len(all))
		}
	})
}
