package xdsconfig

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	configv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/penstock-io/penstock/internal/envoyratelimit"
	"github.com/penstock-io/penstock/rules"
)

// The file format of envoyproxy/ratelimit, as far as the messages cover it.
type (
	configFile struct {
		Domain      string           `json:"domain"`
		Descriptors []descriptorFile `json:"descriptors,omitempty"`
	}
	descriptorFile struct {
		Key            string           `json:"key"`
		Value          string           `json:"value,omitempty"`
		RateLimit      *policyFile      `json:"rate_limit,omitempty"`
		ShadowMode     bool             `json:"shadow_mode,omitempty"`
		QuotaMode      bool             `json:"quota_mode,omitempty"`
		DetailedMetric bool             `json:"detailed_metric,omitempty"`
		Descriptors    []descriptorFile `json:"descriptors,omitempty"`
	}
	policyFile struct {
		Unit            string        `json:"unit,omitempty"`
		RequestsPerUnit *uint32       `json:"requests_per_unit,omitempty"`
		Unlimited       bool          `json:"unlimited,omitempty"`
		Name            string        `json:"name,omitempty"`
		Replaces        []replaceFile `json:"replaces,omitempty"`
	}
	replaceFile struct {
		Name string `json:"name"`
	}
)

// Markers of files that are not configuration. No file that convertOne writes begins with one of them.
const (
	unreadableMark = "# cannot decode the resource: " // followed by the reason
	nothingMark    = "# the management server sent no resources"
	noRules        = "rules: []" // what live serves while an origin has no rules yet
)

// unknownMark is a comment before a configuration with fields that the linked types do not know, and that may
// restrict requests.
const unknownMark = "# this version of Penstock does not know some fields of the resource, which are ignored\n"

// convert converts resources to files, sorted by name, since servers send them in any order.
func convert(resources []*anypb.Any) []rules.File {
	files := make([]rules.File, 0, max(1, len(resources)))
	for i, r := range resources {
		files = append(files, convertOne(i, r))
	}
	slices.SortFunc(files, func(a, b rules.File) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), bytes.Compare(a.Data, b.Data))
	})
	if len(files) == 0 {
		files = append(files, rules.File{Name: "xds", Data: []byte(nothingMark)})
	}
	return files
}

func convertOne(i int, r *anypb.Any) rules.File {
	name := fmt.Sprintf("resource %d", i)
	var config configv3.RateLimitConfig
	if err := r.UnmarshalTo(&config); err != nil {
		return rules.File{Name: name, Data: []byte(unreadableMark + err.Error())}
	}
	var text bytes.Buffer
	if hasUnknown(config.ProtoReflect()) {
		text.WriteString(unknownMark)
	}
	to := json.NewEncoder(&text)
	to.SetEscapeHTML(false)
	to.SetIndent("", " ") // so that the line number of a problem is useful
	if err := to.Encode(configFile{config.Domain, convertDescriptors(config.Descriptors)}); err != nil {
		return rules.File{Name: name, Data: []byte(unreadableMark + err.Error())}
	}
	return rules.File{Name: fmt.Sprintf("%.256s", cmp.Or(config.Name, config.Domain, name)), Data: text.Bytes()}
}

// quotaModeField is the number of RateLimitDescriptor.quota_mode, which newer versions of the message have.
const quotaModeField = 7

func convertDescriptors(all []*configv3.RateLimitDescriptor) []descriptorFile {
	var files []descriptorFile
	for _, d := range all {
		f := descriptorFile{
			Key: d.GetKey(), Value: d.GetValue(), ShadowMode: d.GetShadowMode(), DetailedMetric: d.GetDetailedMetric(),
			QuotaMode:   hasFlag(d.ProtoReflect().GetUnknown(), quotaModeField),
			Descriptors: convertDescriptors(d.GetDescriptors()),
		}
		if p := d.GetRateLimit(); p != nil {
			f.RateLimit = convertPolicy(p)
		}
		files = append(files, f)
	}
	return files
}

// units are the names in files. Newer versions of the message have more units than the linked type.
var units = map[configv3.RateLimitUnit]string{0: "", 1: "second", 2: "minute", 3: "hour", 4: "day", 5: "month", 6: "year", 7: "week"}

func convertPolicy(p *configv3.RateLimitPolicy) *policyFile {
	unit, known := units[p.GetUnit()]
	if !known {
		unit = p.GetUnit().String() // a number, which is not the name of any unit
	}
	f := &policyFile{Unit: unit, Unlimited: p.GetUnlimited(), Name: p.GetName()}
	if !f.Unlimited {
		f.RequestsPerUnit = new(p.GetRequestsPerUnit())
	}
	for _, r := range p.GetReplaces() {
		f.Replaces = append(f.Replaces, replaceFile{r.GetName()})
	}
	return f
}

// hasUnknown reports whether a message, or one in it, has fields that are not converted.
func hasUnknown(m protoreflect.Message) (found bool) {
	for unknown := m.GetUnknown(); len(unknown) > 0; {
		number, _, n := protowire.ConsumeField(unknown)
		if n < 0 || number != quotaModeField || m.Descriptor().Name() != "RateLimitDescriptor" {
			return true
		}
		unknown = unknown[n:]
	}
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case field.Message() == nil:
		case field.IsList():
			for i := range v.List().Len() {
				found = found || hasUnknown(v.List().Get(i).Message())
			}
		default:
			found = hasUnknown(v.Message())
		}
		return !found
	})
	return found
}

// hasFlag reports whether a boolean field that the linked type does not know is set.
func hasFlag(unknown []byte, field protowire.Number) (set bool) {
	for len(unknown) > 0 {
		number, _, n := protowire.ConsumeField(unknown)
		if n < 0 {
			return set
		}
		if number == field {
			if _, kind, tag := protowire.ConsumeTag(unknown); kind == protowire.VarintType {
				value, _ := protowire.ConsumeVarint(unknown[tag:])
				set = value != 0
			}
		}
		unknown = unknown[n:]
	}
	return set
}

// Compile is [envoyratelimit.Options.Compile] for the files of a Source.
func Compile(o envoyratelimit.Options) func([]rules.File, rules.Options) (*rules.Snapshot, rules.Problems, error) {
	return func(files []rules.File, r rules.Options) (*rules.Snapshot, rules.Problems, error) {
		var mistakes, warnings rules.Problems
		configs := make([]rules.File, 0, len(files))
		for _, f := range files {
			reason, unreadable := strings.CutPrefix(string(f.Data), unreadableMark)
			switch {
			case unreadable:
				mistakes = append(mistakes, rules.Problem{Position: rules.Position{File: f.Name}, Message: strings.TrimPrefix(unreadableMark, "# ") + reason})
			case string(f.Data) == nothingMark, string(f.Data) == noRules:
				warnings = append(warnings, rules.Problem{Severity: rules.Warning, Message: "the management server has no limits for this node: every request passes"})
			default:
				if strings.HasPrefix(string(f.Data), unknownMark) {
					warnings = append(warnings, rules.Problem{Position: rules.Position{File: f.Name}, Severity: rules.Warning, Message: strings.Trim(unknownMark, "# \n")})
				}
				configs = append(configs, f)
			}
		}
		if len(mistakes) > 0 {
			return nil, nil, mistakes
		}
		s, more, err := o.Compile(configs, r)
		return s, append(warnings, more...), err
	}
}
