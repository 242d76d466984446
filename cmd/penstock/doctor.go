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
		Short: "Look for what would go wrong, and say what to do",
		Long: `Look at everything that a server with this configuration would rest on, and say what is
wrong with it and what to do: this machine, Redis or Valkey, the rules and where they
come from, and the server that runs here already, if one does.

It takes the configuration exactly as serve does, from the same file, environment and
flags. It changes nothing: in Redis it writes only keys of its own, which are gone after
seconds, and a database is neither made nor migrated.

  ✓  as it should be
  !  works, and is worth a look
  ✗  wrong; what to do stands below
  ?  cannot be seen from here, mostly as the Redis user may not ask: look by hand

Under the rights that docs/redis.md asks for, some things cannot be seen. That is as it
should be, and a ? does not make the exit status 1.

Exit status: 0 nothing is wrong, 1 something is, 3 Redis or the database could not be
looked at. With --strict also what is worth a look, or cannot be seen, makes it 1.`,
		Example: `  penstock doctor --config penstock.yaml
  penstock doctor --redis 127.0.0.1:6379 --rules rules.yaml
  penstock doctor --config penstock.yaml -o json | jq '.findings[] | select(.level == "wrong")'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if timeout <= 0 {
				return misused("--timeout %v is not positive", timeout)
			}
			conf, err := config.Load(config.Sources{File: file, Env: a.env, Flags: config.Flags(c.Flags())})
			report := doctor.Run(c.Context(), doctor.Options{Config: conf, Invalid: err, Timeout: timeout, Version: buildinfo.Read().Version})
			if err := a.writeReport(report); err != nil {
				return err
			}
			switch report.Outcome(strict) {
			case doctor.Incomplete:
				return &exit{exitFailed, nil}
			case doctor.Unhealthy:
				return no(nil)
			}
			return nil
		},
	}
	c.Flags().StringVar(&file, "config", "", "configuration `file`; default PENSTOCK_CONFIG")
	c.Flags().BoolVar(&strict, "strict", false, "exit with 1 also for ! and ?")
	c.Flags().DurationVar(&timeout, "timeout", 3*time.Second, "for each connection and each question")
	config.AddFlags(c.Flags())
	return c
}

func (a *app) writeReport(r *doctor.Report) error {
	if a.json() {
		return a.writeJSON(r)
	}
	r.Print(a.stdout, a.colour)
	return nil
}
