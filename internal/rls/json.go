package rls

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/webguard"
	"github.com/penstock-io/penstock/internal/wire"
)

// maxObjects bounds the objects in a body: an object of three bytes takes a hundred times as much memory when
// decoded. It leaves room for braces within values.
const maxObjects = 4 * 64 * 64

// JSON serves the rate limit service as JSON, for clients without gRPC: it answers 200 or 429, each with the whole
// response.
func (s *Server) JSON(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "use POST, with a RateLimitRequest as JSON", http.StatusMethodNotAllowed)
		return
	}
	if err := webguard.CheckJSON(r.Header); err != nil {
		w.Header().Set("Accept-Post", "application/json")
		http.Error(w, err.Error(), http.StatusUnsupportedMediaType)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, wire.MaxBatchBody))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		http.Error(w, "the body has more than 1 MiB", http.StatusRequestEntityTooLarge)
		return
	}
	if err != nil {
		http.Error(w, "the body cannot be read", http.StatusBadRequest)
		return
	}
	if n := bytes.Count(body, []byte{'{'}); n > maxObjects {
		http.Error(w, fmt.Sprintf("the body has %d objects; at most %d", n, maxObjects), http.StatusBadRequest)
		return
	}
	var request rlsv3.RateLimitRequest
	if err := protojson.Unmarshal(body, &request); err != nil {
		s.invalidLimits.add(r.Context(), s, rateLimit, err)
		http.Error(w, "the body is not a RateLimitRequest: "+err.Error(), http.StatusBadRequest)
		return
	}
	s.answer(w, r, &request)
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request, request *rlsv3.RateLimitRequest) {
	c := call{message: request}
	err := s.limit(r.Context(), &c)
	switch {
	case errors.Is(err, penstock.ErrInvalid):
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	case err != nil:
		s.Log.ErrorContext(r.Context(), "descriptors not decided", "domain", request.Domain, "error", err)
		http.Error(w, "the store is unavailable and there is no fallback", http.StatusServiceUnavailable)
		return
	}
	var response rlsv3.RateLimitResponse
	var out []byte
	if err = proto.Unmarshal(c.response.b, &response); err == nil {
		out, err = protojson.Marshal(&response)
	}
	if err != nil {
		s.Log.ErrorContext(r.Context(), "cannot write the response", "error", err)
		http.Error(w, "cannot encode the response as JSON", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if response.OverallCode == rlsv3.RateLimitResponse_OVER_LIMIT {
		w.WriteHeader(http.StatusTooManyRequests)
	}
	_, _ = w.Write(out) // a client that has gone away needs no error
}
