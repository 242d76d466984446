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

// A masker masks the values that identify clients: viewers see a part of a keyed hash instead. A client has the same
// hash on every screen and node, so viewers can follow it but not identify it. Every response passes through the
// veil, whichever route made it.
//
// It would be useless if viewers could look up the hash of a value. So no route that shows viewers requests takes a
// value of their choice: see unveiled, and the roles in routes.
type masker struct{ hasher storage.Hasher }

// plainAttributes are those whose values do not identify clients. All others, paths included, can contain anything a
// client chooses.
var plainAttributes = []string{"method"}

// veiled marks a masked value: six bytes of a hash follow.
const veiled = "#"

func newMasker(secret string) *masker { return &masker{storage.NewHasher(secret)} }

// unveiled reports whether viewers see the values of an attribute.
func unveiled(attribute string) bool { return slices.Contains(plainAttributes, attribute) }

// value returns what viewers see of an attribute's value.
func (v *masker) value(attribute, value string) string {
	if unveiled(attribute) || value == "" {
		return value
	}
	hash := v.hasher.Subject("", "veil", penstock.Attribute{Name: attribute, Value: value})
	return veiled + base64.RawURLEncoding.EncodeToString(hash[len(hash)-6:]) // the start of the hash is the same for all
}

// named matches an attribute of a client in a Detail. A truncated detail can lack the closing quote.
var named = regexp.MustCompile(`([\w.-]+)="(?:[^"\\]|\\.)*(?:"|\\?$)`)

func (v *masker) detail(d Detail) Detail {
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

// mask returns a response as viewers see it.
func (v *masker) mask(answer any) any {
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

// namesSomebody reports whether a response contains values that viewers do not see.
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
