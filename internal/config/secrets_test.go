package config

import (
	"reflect"
	"regexp"
	"slices"
	"testing"
)

// Settings that can contain a secret have a type that does not print it, or are checked before anything prints
// them.
func TestSecretSettingsAreKnown(t *testing.T) {
	holds := regexp.MustCompile(`(password|secret|token|urls?|database|addresses)$`)
	checked := []string{"url", "urls", "store.redis.addresses", "store.redis_per_second.addresses"}
	upstream := DefaultUpstream()
	for _, s := range append(settings(reflect.ValueOf(Default()).Elem(), ""), settings(reflect.ValueOf(&upstream).Elem(), "")...) {
		hides := s.value.Type() == reflect.TypeFor[Secret]() || s.value.Type() == reflect.TypeFor[SecretURL]()
		if holds.MatchString(s.path) && !hides && !slices.Contains(checked, s.path) {
			t.Errorf("%s of type %v can hold a secret", s.path, s.value.Type())
		}
	}
}
