package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/client/internal/remote"
	"github.com/penstock-io/penstock/internal/problem"
)

// maxReply bounds the reply to a thousand requests under many rules.
const maxReply = 64 << 20

// send sends one HTTP request and returns the body of the reply.
func (h *HTTP) send(ctx context.Context, method string, at []string, body []byte, most int) ([]byte, error) {
	if len(body) > most {
		return nil, fmt.Errorf("%w: the request has %d bytes; at most %d", penstock.ErrInvalid, len(body), most)
	}
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, h.base.JoinPath(at...).String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", penstock.ErrInvalid, err)
	}
	r.Header.Set("Accept", "application/json")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := h.client.Do(r)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err // it repeats the URL, with the user
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", remote.ErrUnavailable, err)
	}
	defer answer.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(answer.Body, maxReply+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", remote.ErrUnavailable, err)
	case len(reply) > maxReply:
		return nil, fmt.Errorf("%w: the response has more than %d bytes", remote.ErrUnavailable, maxReply)
	case answer.StatusCode != http.StatusOK:
		return nil, refusal(answer, reply, at[1] == "reservations" || at[1] == "report")
	}
	return reply, nil
}

// refusal converts a reply without a verdict into an error. Only a problem document of the service itself can
// mean that the request is invalid: anything else may come from a proxy or another server.
func refusal(answer *http.Response, body []byte, concluding bool) error {
	if answer.Header.Get("Content-Type") != problem.MediaType {
		return fmt.Errorf("%w: got %s, which is not a response of the decision API: check the address and port", remote.ErrUnavailable, answer.Status)
	}
	p, err := problem.Parse(body)
	if err != nil {
		return fmt.Errorf("%w: got %s: %w", remote.ErrUnavailable, answer.Status, err)
	}
	cause := remote.ErrUnavailable
	switch code := answer.StatusCode; {
	case code == http.StatusBadRequest || code == http.StatusRequestEntityTooLarge:
		cause = penstock.ErrInvalid
	case code == http.StatusNotFound && concluding:
		cause = penstock.ErrNoReservation
	case code == http.StatusConflict && concluding:
		cause = penstock.ErrClosed
	}
	return fmt.Errorf("%w: %s", cause, p.Detail)
}
