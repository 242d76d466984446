package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-io/penstock/internal/config"
)

func newHealthCommand(a *app) *cobra.Command {
	var file, url string
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "health",
		Short: "Check whether the node on this machine is ready",
		Long: `Check whether the node on this machine is ready for requests. Use it for health checks in
containers without curl.

It reads the same configuration as serve, from the same file, environment and flags, and
requests /readyz from listen.health, listen.http or listen.admin, the first that is set. A
node that uses a fallback while its store is unavailable is ready, and says so.

Exit status: 0 ready, 1 not ready, 3 no response.`,
		Example: `  penstock health
  penstock health --config /etc/penstock/penstock.yaml
  penstock health --url http://127.0.0.1:8092/readyz`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if timeout <= 0 {
				return misused("--timeout %v is not positive", timeout)
			}
			if url == "" {
				conf, invalid := config.Read(config.Sources{File: file, Env: a.env, Flags: config.Flags(c.Flags())})
				address, err := healthAddress(conf)
				if err != nil {
					return failed(errors.Join(invalid, err))
				}
				url = "http://" + address + "/readyz"
			}
			ctx, cancel := context.WithTimeout(c.Context(), timeout)
			defer cancel()
			return a.askHealth(ctx, url)
		},
	}
	c.Flags().StringVar(&file, "config", "", "configuration `file`; default PENSTOCK_CONFIG")
	c.Flags().StringVar(&url, "url", "", "`URL` to request instead of the configured one")
	c.Flags().DurationVar(&timeout, "timeout", 3*time.Second, "timeout of the request")
	config.AddFlags(c.Flags())
	return c
}

// healthAddress returns where a node with this configuration answers /readyz without TLS.
func healthAddress(c *config.Config) (string, error) {
	listeners := []string{c.Listen.Health, c.Listen.HTTP}
	if c.Admin.TLS.Certificate == "" {
		listeners = append(listeners, c.Listen.Admin)
	}
	for _, address := range listeners {
		if address == "" {
			continue
		}
		if _, port, err := net.SplitHostPort(address); err == nil && port != "0" {
			return config.Local(address), nil
		}
	}
	return "", fmt.Errorf("no listener serves /readyz at a known port: listen.health is %q, listen.http %q, listen.admin %q; set listen.health, or use --url", c.Listen.Health, c.Listen.HTTP, c.Listen.Admin)
}

// askHealth prints the node's own status in one line.
func (a *app) askHealth(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return misused("--url: %w", err)
	}
	transport := &http.Transport{DisableKeepAlives: true} // without a proxy: the node is on this machine
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return failed(fmt.Errorf("ask %s: %w", url, err))
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
	if err != nil {
		return failed(fmt.Errorf("ask %s: %w", url, err))
	}
	status := strings.TrimSpace(string(text))
	if a.json() {
		err = a.writeJSON(map[string]any{"ready": answer.StatusCode == http.StatusOK, "status": answer.StatusCode, "detail": status})
	} else {
		_, err = fmt.Fprintln(a.stdout, status)
	}
	if err == nil && answer.StatusCode != http.StatusOK {
		err = exitWithNo(nil)
	}
	return err
}
