package config

import (
	"encoding"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// A setting is one key of the configuration and where its value goes.
type setting struct {
	path  string // store.redis.timeout
	doc   string
	oneof []string
	value reflect.Value
}

// settings returns the keys of a struct, in the order of its fields.
func settings(of reflect.Value, prefix string) []setting {
	var all []setting
	for i := range of.NumField() {
		field, value := of.Type().Field(i), of.Field(i)
		if field.Tag.Get("key") == "" {
			continue
		}
		path := prefix + field.Tag.Get("key")
		if isSection(value) {
			all = append(all, settings(value, path+".")...)
			continue
		}
		all = append(all, setting{path, field.Tag.Get("doc"), strings.Fields(field.Tag.Get("oneof")), value})
	}
	return all
}

// variable returns the environment variable of a key.
func variable(path string) string {
	return "PENSTOCK_" + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

// set sets the value of the setting from a text.
func (s *setting) set(text string) error { return s.setValue(s.value, text) }

func (s *setting) setValue(v reflect.Value, text string) error {
	switch to := v.Addr().Interface().(type) {
	case encoding.TextUnmarshaler:
		return to.UnmarshalText([]byte(text))
	case *time.Duration:
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return fmt.Errorf("invalid duration %.64q, for example 10ms, 5s or 1m", text)
		}
		*to = d
		return nil
	}
	switch v.Kind() {
	case reflect.String:
		if len(s.oneof) > 0 && !slices.Contains(s.oneof, text) {
			return fmt.Errorf("invalid value %.64q: must be one of %s", text, strings.Join(s.oneof, ", "))
		}
		v.SetString(text)
	case reflect.Bool:
		if text != "true" && text != "false" {
			return fmt.Errorf("invalid value %.64q: must be true or false", text)
		}
		v.SetBool(text == "true")
	case reflect.Int:
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 0 {
			return fmt.Errorf("invalid number %.64q: must be from 0 to %d", text, 1<<31-1)
		}
		v.SetInt(n)
	case reflect.Slice:
		return s.setList(v, text)
	default:
		return fmt.Errorf("invalid value %.64q", text)
	}
	return nil
}

// setList reads a comma-separated list, as in the environment and flags.
func (s *setting) setList(v reflect.Value, text string) error {
	var parts []string
	if text != "" {
		parts = strings.Split(text, ",")
	}
	list := reflect.MakeSlice(v.Type(), len(parts), len(parts))
	for i, part := range parts {
		if err := s.setValue(list.Index(i), strings.TrimSpace(part)); err != nil {
			return err
		}
	}
	v.Set(list)
	return nil
}

// Size is a number of bytes, written 16KiB, 1GiB or 4096; -1 means none at all.
type Size int64

func (s *Size) UnmarshalText(text []byte) error {
	if string(text) == "-1" {
		*s = -1
		return nil
	}
	n, err := humanize.ParseBytes(string(text))
	if err != nil || n > 1<<50 {
		return fmt.Errorf("invalid size %.64q, for example 4096, 16KiB or 1GiB", text)
	}
	*s = Size(n)
	return nil
}

func (s Size) String() string {
	if s < 0 {
		return "-1"
	}
	return strings.NewReplacer(".0 ", "", " ", "").Replace(humanize.IBytes(uint64(s)))
}

// Ratio is a fraction from 0 to 1.
type Ratio float64

func (r *Ratio) UnmarshalText(text []byte) error {
	n, err := strconv.ParseFloat(string(text), 32)
	if err != nil || !(n >= 0 && n <= 1) {
		return fmt.Errorf("invalid ratio %.64q: must be from 0 to 1, for example 0.8", text)
	}
	*r = Ratio(n)
	return nil
}

// Network is a CIDR; a single address is a network of one address.
type Network struct{ netip.Prefix }

func (n *Network) UnmarshalText(text []byte) (err error) {
	if addr, bad := netip.ParseAddr(string(text)); bad == nil {
		n.Prefix = netip.PrefixFrom(addr.Unmap().WithZone(""), addr.Unmap().BitLen())
		return nil
	}
	if n.Prefix, err = netip.ParsePrefix(string(text)); err != nil {
		return fmt.Errorf("invalid network %.64q, for example 10.0.0.0/8 or 192.0.2.1", text)
	}
	if n.Prefix != n.Masked() {
		return fmt.Errorf("invalid network %.64q: bits are set beyond the prefix; use %v or %v/%d", text, n.Masked(), n.Addr(), n.Addr().BitLen())
	}
	return nil
}
