package rls

import (
	"slices"

	descriptorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/penstock-io/penstock"
)

// ownMetadata is the field of Penstock's remarks.
const ownMetadata = "penstock"

// isUsual reports whether there is no metadata besides that of a denial.
func isUsual(a *Answers) bool {
	for i := range a.Each {
		if len(a.Each[i].Metadata) > 0 || a.Each[i].Verdict.Quality > penstock.QualityLeased || deniedByShadow(&a.Each[i].Verdict) {
			return false
		}
	}
	return true
}

func deniedByShadow(v *penstock.Verdict) bool {
	return slices.ContainsFunc(v.Limits, func(l penstock.LimitVerdict) bool { return l.Shadow && !l.Allowed })
}

// metadata returns Envoy's dynamic metadata in the format of envoyproxy/ratelimit: the metadata of the limits that
// were not exceeded under "metadata", and the request next to it if configured. Penstock's own remarks are under
// "penstock". It returns nil if there is nothing to report, which is usual.
func (s *Server) metadata(r *rlsv3.RateLimitRequest, a *Answers, v *penstock.Verdict) *structpb.Struct {
	fields := map[string]*structpb.Value{}
	if s.RequestMetadata {
		addRequest(fields, r)
	}
	for i := range a.Each {
		if len(a.Each[i].Metadata) == 0 {
			continue
		}
		// Metadata that cannot be converted is left out: the answer must not fail because of it.
		if of, err := structpb.NewStruct(a.Each[i].Metadata); err == nil {
			merge(fields, map[string]*structpb.Value{"metadata": structpb.NewStructValue(of)})
		}
	}
	if own := unusualFields(a, v); len(own) > 0 {
		fields[ownMetadata] = structOf(own)
	}
	if len(fields) == 0 {
		return nil
	}
	return &structpb.Struct{Fields: fields}
}

// addRequest adds the request.
func addRequest(fields map[string]*structpb.Value, r *rlsv3.RateLimitRequest) {
	fields["domain"] = structpb.NewStringValue(r.Domain)
	descriptors := make([]*structpb.Value, len(r.Descriptors))
	for i, d := range r.Descriptors {
		descriptors[i] = structOf(descriptorFields(d))
	}
	fields["descriptors"] = structpb.NewListValue(&structpb.ListValue{Values: descriptors})
	if r.HitsAddend != 0 {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(r.HitsAddend))
	}
}

func descriptorFields(d *descriptorv3.RateLimitDescriptor) map[string]*structpb.Value {
	entries := make([]*structpb.Value, len(d.GetEntries()))
	for i, e := range d.GetEntries() {
		entries[i] = structpb.NewStringValue(e.GetKey() + "=" + e.GetValue())
	}
	fields := map[string]*structpb.Value{"entries": structpb.NewListValue(&structpb.ListValue{Values: entries})}
	if l := d.GetLimit(); l != nil {
		fields["limit"] = structpb.NewStringValue(l.String())
	}
	if hits := d.GetHitsAddend(); hits != nil {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(hits.GetValue()))
	}
	return fields
}

// merge adds fields that are not present yet, at every depth.
func merge(into, from map[string]*structpb.Value) {
	for name, value := range from {
		have, ok := into[name]
		switch {
		case !ok:
			into[name] = value
		case have.GetStructValue() != nil && value.GetStructValue() != nil:
			merge(have.GetStructValue().Fields, value.GetStructValue().Fields)
		}
	}
}

func structOf(fields map[string]*structpb.Value) *structpb.Value {
	return structpb.NewStructValue(&structpb.Struct{Fields: fields})
}

// unusualFields returns what is out of the ordinary: a denial, a denial by a shadow rule, and a decision without the
// store.
func unusualFields(a *Answers, all *penstock.Verdict) map[string]*structpb.Value {
	own := map[string]*structpb.Value{}
	var shadow []*structpb.Value
	for i := range a.Each {
		v := &a.Each[i].Verdict
		if v.Quality > penstock.QualityLeased { // leased quota is normal
			own["quality"] = structpb.NewStringValue(v.Quality.String())
		}
		for k := range v.Limits {
			if l := &v.Limits[k]; l.Shadow && !l.Allowed {
				shadow = append(shadow, structpb.NewStringValue(l.Rule))
			}
		}
	}
	if len(shadow) > 0 {
		own["shadow"] = structpb.NewListValue(&structpb.ListValue{Values: shadow})
	}
	if !a.Allowed {
		own["rule"], own["reason"] = structpb.NewStringValue(all.Rule), structpb.NewStringValue(all.Reason.String())
	}
	return own
}
