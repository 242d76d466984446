package admin

import (
	"encoding/base64"
	"reflect"
	"regexp"
	"slices"
	"strconv"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/storage"
)

// A veil is what viewers see callers through: in the place of a value stands a part of a keyed hash
// of it. The same caller has the same on every screen and node, so that he can be followed but
// not named. Every answer passes it, whichever route made it.
//
// It would be of no use if a viewer could ask what is behind it. So no route that tells viewers about
// calls takes a value that they chose: see unveiled, and the roles in routes.
type veil struct{ hasher storage.Hasher }

// plainAttributes are those whose values tell nobody apart. Of all others, paths among them, nobody
// knows what callers write there.
var plainAttributes = []string{"method"}

// veiled marks what is not a value but stands for one: six bytes of a hash follow.
const veiled = "#"

func newVeil(secret string) *veil { return &veil{storage.NewHasher(secret)} }

// unveiled tells whether viewers see the values of an attribute.
func unveiled(attribute string) bool { return slices.Contains(plainAttributes, attribute) }

// value is what viewers see of an attribute's value.
func (v *veil) value(attribute, value string) string {
	if unveiled(attribute) || value == "" {
		return value
	}
	hash := v.hasher.Subject("", "veil", penstock.Attribute{Name: attribute, Value: value})
	return veiled + base64.RawURLEncoding.EncodeToString(hash[len(hash)-6:]) // it begins with what is the same for all
}

// named is a caller's attribute as a Detail has it. A detail that was cut off may lack the last quote.
var named = regexp.MustCompile(`([\w.-]+)="(?:[^"\\]|\\.)*(?:"|\\?$)`)

func (v *veil) detail(d Detail) Detail {
	return Detail(named.ReplaceAllStringFunc(string(d), func(found string) string {
		parts := named.FindStringSubmatch(found)
		quoted := found[len(parts[1])+1:]
		value, err := strconv.Unquote(quoted)
		if err != nil {
			value = quoted
		}
		return parts[1] + "=" + v.value(parts[1], value)
	}))
}

// over returns an answer as viewers see it.
func (v *veil) over(answer any) any {
	return eachName(answer, func(at reflect.Value) {
		switch who := at.Interface().(type) {
		case Attributes:
			covered := make(Attributes, len(who))
			for name, value := range who {
				covered[name] = v.value(name, value)
			}
			at.Set(reflect.ValueOf(covered))
		case Detail:
			at.Set(reflect.ValueOf(v.detail(who)))
		}
	})
}

// namesSomebody tells whether an answer has what viewers do not see.
func namesSomebody(answer any) (found bool) {
	eachName(answer, func(at reflect.Value) {
		switch who := at.Interface().(type) {
		case Attributes:
			for name, value := range who {
				found = found || value != "" && !unveiled(name)
			}
		case Detail:
			found = found || named.MatchString(string(who))
		}
	})
	return found
}
