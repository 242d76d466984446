package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-io/penstock/internal/buildinfo"
	"github.com/penstock-io/penstock/internal/config"
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
			d := &doctor{config: conf, timeout: timeout, version: buildinfo.Read().Version}
			d.examine(c.Context(), err)
			if err := a.writeReport(&d.report); err != nil {
				return err
			}
			return d.report.exit(strict)
		},
	}
	c.Flags().StringVar(&file, "config", "", "configuration `file`; default PENSTOCK_CONFIG")
	c.Flags().BoolVar(&strict, "strict", false, "exit with 1 also for ! and ?")
	c.Flags().DurationVar(&timeout, "timeout", 3*time.Second, "for each connection and each question")
	config.AddFlags(c.Flags())
	return c
}

// A doctor looks at what a server with the configuration would rest on.
type doctor struct {
	config  *config.Config
	timeout time.Duration
	version string // of this program
	report  report
}

// examine looks at everything. The error is what is wrong with the configuration.
func (d *doctor) examine(ctx context.Context, invalid error) {
	d.report.begin("configuration")
	if !d.examineConfig(invalid) {
		return
	}
	d.report.begin("this machine")
	d.examineMachine()
	d.report.begin("rules")
	found := d.examineRules(ctx)
	d.report.begin("store")
	d.examineStore(ctx, found)
}

// examineConfig tells whether enough of the configuration could be read to go on.
func (d *doctor) examineConfig(invalid error) bool {
	for _, warning := range d.config.Warnings {
		d.report.look("configuration", "", "%s", warning)
	}
	found, ok := errors.AsType[*config.Error](invalid)
	if !ok {
		d.report.well("configuration", "no mistakes")
		return true
	}
	for _, mistake := range found.Mistakes {
		d.report.wrong("configuration", "serve does not start like this; docs/configuration.md lists all keys", "%v", mistake)
	}
	return !found.Unreadable
}
