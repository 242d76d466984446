package grpclimit

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/httplimit"
)

// sendHeaders sends the HTTP headers of a verdict as metadata, with the first thing that is sent.
func (l *Limiter) sendHeaders(ctx context.Context, v *penstock.Verdict) {
	h := make(http.Header, 3)
	l.writer.Headers(h, v)
	if len(h) == 0 {
		return
	}
	md := make(metadata.MD, len(h))
	for name, values := range h {
		md.Append(name, values...)
	}
	_ = grpc.SetHeader(ctx, md) // fails only if an earlier interceptor has already sent them
}

// denial returns the status that ends a denied request. It repeats nothing that the client sent.
func denial(v *penstock.Verdict) error {
	switch httplimit.Status(v) {
	case http.StatusForbidden:
		return status.Error(codes.PermissionDenied, "access denied")
	case http.StatusServiceUnavailable:
		return status.Error(codes.Unavailable, "the limits cannot be checked right now")
	}
	text := "rate limited"
	switch v.Reason {
	case penstock.ReasonBanned:
		text = "banned temporarily after too many denied requests"
	case penstock.ReasonBlocked:
		text = "blocked by an operator"
	}
	if v.Rule != "" {
		text += " (" + v.Rule + ")"
	}
	var details []protoadapt.MessageV1
	if wait := v.Decision.RetryAfter; wait != penstock.Never {
		text += fmt.Sprintf("; retry in %v", (wait + time.Millisecond - 1).Truncate(time.Millisecond))
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(wait)})
	} else {
		text += "; the cost exceeds the limit"
	}
	if violations := violationsOf(v); len(violations) > 0 {
		details = append(details, &errdetails.QuotaFailure{Violations: violations})
	}
	bare := status.New(codes.ResourceExhausted, text)
	detailed, err := bare.WithDetails(details...)
	if err != nil {
		return bare.Err()
	}
	return detailed.Err()
}

// maxViolations bounds the details: they are sent as a header, whose size clients limit.
const maxViolations = 16

// violationsOf lists the limits that deny.
func violationsOf(v *penstock.Verdict) (out []*errdetails.QuotaFailure_Violation) {
	for i := range v.Limits {
		l := &v.Limits[i]
		if l.Shadow || l.Allowed || len(out) == maxViolations {
			continue
		}
		out = append(out, &errdetails.QuotaFailure_Violation{
			Subject: l.Policy, QuotaId: l.Policy, QuotaValue: l.Limit, Description: describe(l),
		})
	}
	return out
}

func describe(l *penstock.LimitVerdict) string {
	switch {
	case l.Banned:
		return "banned"
	case l.Algorithm == penstock.Concurrency:
		return fmt.Sprintf("limit of %d at the same time reached", l.Limit)
	}
	rate := fmt.Sprintf("limit of %d per %v", cmp.Or(l.Count, l.Limit), l.Window)
	if l.Algorithm == penstock.LeakyBucket && l.Limit > 1 {
		rate += fmt.Sprintf(" with a queue of %d", l.Limit-1)
	}
	return rate + " reached"
}
