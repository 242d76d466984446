package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-io/penstock/internal/admin"
	"github.com/penstock-io/penstock/internal/problem"
	"github.com/penstock-io/penstock/internal/urlform"
)

// addAdminFlags adds the flags that name the server and the token to use.
func addAdminFlags(c *cobra.Command) {
	c.Flags().String("server", "", "`URL` of the admin API; default PENSTOCK_ADMIN_SERVER, or http://127.0.0.1:8091")
	c.Flags().String("token", "", "token for the admin API; default PENSTOCK_TOKEN")
	c.Flags().Duration("timeout", 10*time.Second, "timeout of a request")
}

// An adminClient sends requests to the admin API of a node.
type adminClient struct {
	base, token string
	client      *http.Client
}

// adminClient returns the client for the flags of addAdminFlags.
func (a *app) adminClient(c *cobra.Command) (*adminClient, error) {
	server, _ := c.Flags().GetString("server") // cannot fail: the flags exist
	secret, _ := c.Flags().GetString("token")
	timeout, _ := c.Flags().GetDuration("timeout")
	base := strings.TrimSuffix(cmp.Or(server, a.getenv("PENSTOCK_ADMIN_SERVER"), "http://127.0.0.1:8091"), "/")
	token := cmp.Or(secret, a.getenv("PENSTOCK_TOKEN"))
	var errs []error
	if to, err := url.Parse(base); err != nil || to.Scheme != "http" && to.Scheme != "https" || to.Host == "" {
		errs = append(errs, fmt.Errorf("--server %.128q must be the URL of a server, for example http://127.0.0.1:8091", urlform.Redact(base)))
	}
	if token == "" {
		errs = append(errs, errors.New("no token: set PENSTOCK_TOKEN to an API token (penstock tokens create) or the server's admin.token"))
	}
	if timeout <= 0 {
		errs = append(errs, fmt.Errorf("--timeout %v must be positive", timeout))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, misused("%w", err)
	}
	if secret != "" {
		a.warn("--token: every user of this machine can read the token in the process list; set PENSTOCK_TOKEN instead")
	}
	return &adminClient{base, token, &http.Client{Timeout: timeout}}, nil
}

// maxAnswer bounds the size of a response.
const maxAnswer = 16 << 20

// fetch sends a request and reads the response. An error that is caused by the request exits with no.
func (c *adminClient) fetch(ctx context.Context, method, path string, body, into any) error {
	answer, err := c.send(ctx, method, path, body, c.client)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("ask the admin API: %w", err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("invalid response of the admin API: %w", err)
	}
	return nil
}

// send sends a request with the token, and returns the response if it is a success. The body may be nil.
func (c *adminClient) send(ctx context.Context, method, path string, body any, client *http.Client) (*http.Response, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("ask the admin API: invalid URL %q", urlform.Redact(c.base))
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	if body == nil {
		r.Body, r.ContentLength = http.NoBody, 0
	} else {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := client.Do(r)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = fmt.Errorf("%s: %w", urlform.Redact(c.base), failed.Err) // the error quotes the URL, including the user
	}
	if err != nil {
		return nil, fmt.Errorf("ask the admin API: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		defer answer.Body.Close()
		return nil, refusal(answer)
	}
	return answer, nil
}

// refusal turns an unexpected response into an error.
func refusal(answer *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("ask the admin API: %w", err)
	}
	var p admin.Problem
	if !strings.HasPrefix(answer.Header.Get("Content-Type"), problem.MediaType) || json.Unmarshal(text, &p) != nil || p.Code == "" {
		return fmt.Errorf("the admin API returned %s; is --server the address of listen.admin?", answer.Status)
	}
	if answer.StatusCode == http.StatusUnauthorized { // says nothing about what was asked
		return fmt.Errorf("%s://%s: %s; check PENSTOCK_TOKEN and --server", answer.Request.URL.Scheme, answer.Request.URL.Host, p.Detail)
	}
	if answer.StatusCode >= http.StatusInternalServerError || answer.StatusCode == http.StatusTooManyRequests {
		return errors.New(p.Detail)
	}
	return exitWithNo(errors.New(p.Detail))
}

// stream reads server-sent events and passes each to a function, until that returns an error, the node ends the
// stream or the context ends.
func (c *adminClient) stream(ctx context.Context, path string, each func(event string, data []byte) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answer, err := c.send(ctx, http.MethodGet, path, nil, &http.Client{Transport: &http.Transport{ResponseHeaderTimeout: c.client.Timeout, Proxy: http.ProxyFromEnvironment}})
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, maxAnswer)
	event := ""
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "event":
			event = value
		case "data":
			if err := each(event, []byte(value)); err != nil {
				return err
			}
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read the stream of the admin API: %w", err)
	}
	return errors.New("the node has ended the stream")
}
