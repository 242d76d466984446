package wire

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/bounds"
)

func TestParseReserve(t *testing.T) {
	body := ` {"id":" r1\t", "domain": "mesh", "attributes" : {"user":" u\u0031\t ","path":"/a\\b\"}{", "empty":"", "clef":"\ud834\udd1e"},
		"cost": 0, "max_delay_ms":250, "ttl_ms" : 60000 } `
	var got penstock.Call
	if err := ParseReserve([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	want := penstock.Call{
		Domain: "mesh", ID: "r1", Cost: 0, MaxDelay: 250 * time.Millisecond, Reserve: true, TTL: time.Minute,
		Attributes: []penstock.Attribute{{Name: "user", Value: "u1"}, {Name: "path", Value: `/a\b"}{`}, {Name: "empty"}, {Name: "clef", Value: "\U0001d11e"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestNormalHost(t *testing.T) {
	for _, test := range []struct{ domain, host, want, problem string }{
		{host: "API.example.com.:8080", want: "api.example.com"},
		{domain: "default", host: "Example.com", want: "example.com"},
		{domain: "mesh", host: "Example.com:8080", want: "Example.com:8080"},
		{host: "[2001:DB8::1]:443", want: "2001:db8::1"},
		{host: "2001:db8:0::1", want: "2001:db8::1"},
		{host: "192.0.2.1:80", want: "192.0.2.1"},
		{host: "", want: ""},
		{host: "a:80:80", problem: `attributes.host: "a:80:80" is not a host: must be a name or an address, with or without a port`},
		{host: "fe80::1%eth0", problem: `attributes.host: "fe80::1%eth0" is not a host`},
		{host: "a/b", problem: `attributes.host: "a/b" is not a host`},
		{host: strings.Repeat("x", 300), problem: `is not a host`},
	} {
		var c penstock.Call
		err := ParseCheck(fmt.Appendf(nil, `{"attributes":{"user":"U.","host":%q},"domain":%q}`, test.host, test.domain), &c)
		if test.problem != "" {
			if err == nil || !strings.Contains(err.Error(), test.problem) {
				t.Errorf("%q: %v, want %s", test.host, err, test.problem)
			}
			continue
		}
		if user, _ := c.Attribute("user"); err != nil || user != "U." {
			t.Errorf("%q: %v, user %q", test.host, err, user)
		}
		if host, _ := c.Attribute("host"); host != test.want {
			t.Errorf("%q: %q, want %q", test.host, host, test.want)
		}
	}
}

func TestCallKeepsNothingOfTheLast(t *testing.T) {
	c := penstock.Call{Domain: "d", ID: "i", Cost: 7, MaxDelay: 1, TTL: 1, Reserve: true, Attributes: []penstock.Attribute{{Name: "old"}}}
	if err := ParseCheck([]byte(`{"attributes":{}}`), &c); err != nil {
		t.Fatal(err)
	}
	if c.Domain != "" || c.ID != "" || c.Cost != 1 || c.MaxDelay != 0 || c.TTL != 0 || c.Reserve || len(c.Attributes) != 0 {
		t.Errorf("left of the call before: %+v", c)
	}
}

func TestMistakesOfACheck(t *testing.T) {
	many := strings.Builder{}
	for i := range bounds.Attributes + 1 {
		fmt.Fprintf(&many, `"a%d":"",`, i)
	}
	for _, test := range []struct{ body, want string }{
		{``, "must be a JSON object, is empty"},
		{`{`, "must be JSON: at byte 1: unexpected end of JSON input"},
		{"{\"attributes\":{\"a\":\"\xff\"}}", "must be JSON in UTF-8, has bytes that are not"},
		{`[]`, "must be an object, is an array"},
		{`null`, "must be an object, is null"},
		{`7`, "must be an object, is a number"},
		{`{"attributes":{}} {}`, "must be JSON: at byte 19: invalid character '{' after top-level value"},
		{`{}`, "attributes: is missing"},
		{`{"attributes":[]}`, "attributes: must be an object of strings, is an array"},
		{`{"attributes":{"user":7}}`, "attributes.user: must be a string, is a number"},
		{`{"attributes":{"user":null}}`, "attributes.user: must be a string, is null"},
		{`{"attributes":{"user":"a","user":"b"}}`, "attributes.user: is given twice"},
		{`{"attributes":{"user":"a","\u0075ser":"b"}}`, "attributes.user: is given twice"},
		{`{"attributes":{"":"a"}}`, "attributes: has 0 bytes, must have from 1 to 128"},
		{`{"attributes":{"x":"\ud800"}}`, `attributes.x: holds half of a surrogate pair: a character above U+FFFF needs two \u escapes`},
		{`{"attributes":{"x":"\udc00\ud800"}}`, `attributes.x: holds half of a surrogate pair: a character above U+FFFF needs two \u escapes`},
		{`{"attributes":{` + strings.TrimSuffix(many.String(), ",") + `}}`, "attributes: at most 256 attributes"},
		{`{"attributes":{"x":"` + strings.Repeat("y", bounds.AttributeValue+1) + `"}}`, "attributes.x: has 8193 bytes, must have from 0 to 8192"},
		{`{"attributes":{"a.b\n":1}}`, `attributes."a.b\n": must be a string, is a number`},
		{`{"attributes":{},"cost":1.5}`, "cost: 1.5 is not an integer from 0 to 1000000000000"},
		{`{"attributes":{},"cost":-1}`, "cost: -1 is not an integer from 0 to 1000000000000"},
		{`{"attributes":{},"cost":1e3}`, "cost: 1e3 is not an integer from 0 to 1000000000000"},
		{`{"attributes":{},"cost":99999999999999999999999999999999}`, "cost: 999999999999999999999999 is not an integer from 0 to 1000000000000"},
		{`{"attributes":{},"cost":"1"}`, "cost: must be an integer, is a string"},
		{`{"attributes":{},"cost":1,"cost":2}`, "cost: is given twice"},
		{`{"attributes":{},"Cost":1}`, "Cost: unknown field; there are domain, attributes, cost, id, max_delay_ms"},
		{`{"attributes":{},"ttl_ms":1}`, "ttl_ms: unknown field; there are domain, attributes, cost, id, max_delay_ms"},
		{`{"attributes":{},"max_delay_ms":3600001}`, "max_delay_ms: 3600001 is not an integer from 0 to 3600000"},
		{`{"attributes":{},"id":true}`, "id: must be a string, is a boolean"},
		{`{"attribute":{"user":[1,{"a":"]"}]},"attributes":{"a":1,"b":{}},"cost":-2}`, "attribute: unknown field; there are domain, attributes, cost, id, max_delay_ms; " +
			"attributes.a: must be a string, is a number; attributes.b: must be a string, is an object; cost: -2 is not an integer from 0 to 1000000000000"},
	} {
		var c penstock.Call
		err := ParseCheck([]byte(test.body), &c)
		if err == nil || err.Error() != test.want || !errors.Is(err, penstock.ErrInvalid) {
			t.Errorf("%.100s\n got %v\nwant %s", test.body, err, test.want)
		}
	}
}

func TestMistakesOfOthers(t *testing.T) {
	batch := func(body string) error { _, err := ParseBatch([]byte(body)); return err }
	settle := func(body string) error { _, err := ParseSettle([]byte(body)); return err }
	renew := func(body string) error { _, err := ParseRenew([]byte(body)); return err }
	for _, test := range []struct {
		parse      func(string) error
		body, want string
	}{
		{batch, `{}`, "calls: is missing"},
		{batch, `{"calls":{}}`, "calls: must be an array of calls, is an object"},
		{batch, `{"calls":[]}`, "calls: must have at least one call"},
		{batch, `{"calls":[{"attributes":{}},{"attributes":{"u":1}},7]}`, "calls[1].attributes.u: must be a string, is a number; calls[2]: must be an object, is a number"},
		{batch, `{"calls":[` + strings.Repeat(`{"attributes":{}},`, MaxBatch) + `{}]}`, "calls: at most 1000 calls; split the batch"},
		{settle, `{}`, "cost: is missing"},
		{settle, `{"cost":-1}`, "cost: -1 is not an integer from 0 to 1000000000000"},
		{renew, `{"ttl_ms":0}`, "ttl_ms: 0 is not an integer from 1 to 86400000"},
		{renew, `{"ttl":"1m"}`, "ttl: unknown field; there are ttl_ms"},
	} {
		if err := test.parse(test.body); err == nil || err.Error() != test.want {
			t.Errorf("%.100s\n got %v\nwant %s", test.body, err, test.want)
		}
	}
}

func TestMistakesAreBounded(t *testing.T) {
	err := ParseCheck([]byte(`{"attributes":{}`+strings.Repeat(`,"x":1`, 1000)+`}`), new(penstock.Call))
	mistakes, ok := errors.AsType[*FieldErrors](err)
	if !ok || len(mistakes.List) != MaxMistakes || !mistakes.More || !strings.HasSuffix(err.Error(), "; and more") {
		t.Errorf("got %v", err)
	}
}
