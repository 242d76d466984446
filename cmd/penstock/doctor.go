package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-io/penstock/internal/buildinfo"
	"github.com/penstock-io/penstock/internal/config"
	"github.com/penstock-io/penstock/internal/doctor"
)

func newDoctorCommand(a *app) *cobra.Command {
	var file string
	var strict bool
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check everything a server needs and say what to fix",
		Long: `Check everything a server with this configuration needs, and say what is wrong and how to
fix it: this machine, Redis or Valkey, the rules and their source, and the server that is
already running here, if any.

It reads the configuration exactly as serve does, from the same file, environment and
flags. It changes nothing: in Redis it writes only its own keys, which expire within
seconds, and it neither creates nor migrates a database.

  ✓  ok
  !  warning: works, but should be checked
  ✗  failed: the next line says how to fix it
  ?  unknown: cannot be checked from here, usually because the Redis user lacks permission

If the Redis user has only the permissions in docs/reference/redis.md, some checks are unknown. That
is expected and does not change the exit status.

Exit status: 0 no check failed, 1 a check failed, 3 Redis or the source of the rules could
not be checked. With --strict, warnings and unknown checks also exit with 1.`,
		Example: `  penstock doctor --config penstock.yaml
  penstock doctor --redis 127.0.0.1:6379 --rules rules.yaml
  penstock doctor --config penstock.yaml -o json | jq '.findings[] | select(.level == "fail")'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if timeout <= 0 {
				return misused("--timeout %v is not positive", timeout)
			}
			conf, err := config.Load(config.Sources{File: file, Env: a.env, Flags: config.Flags(c.Flags())})
			report := doctor.Run(c.Context(), doctor.Options{Config: conf, Invalid: err, Timeout: timeout, Version: buildinfo.Read().Version})
			if !a.json() {
				report.Print(a.stdout, a.colour)
			} else if err := a.writeJSON(report); err != nil {
				return err
			}
			outcome := report.Outcome(strict)
			if outcome == doctor.Incomplete {
				return failed(nil)
			}
			return exitWith(outcome == doctor.Healthy)
		},
	}
	c.Flags().StringVar(&file, "config", "", "configuration `file`; default PENSTOCK_CONFIG")
	c.Flags().BoolVar(&strict, "strict", false, "also exit with 1 for warnings and unknown checks")
	c.Flags().DurationVar(&timeout, "timeout", 3*time.Second, "timeout of each connection and each check")
	config.AddFlags(c.Flags())
	return c
}
