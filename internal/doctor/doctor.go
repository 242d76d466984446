package doctor

import (
	"context"
	"errors"
	"time"

	"github.com/penstock-io/penstock/internal/config"
)

// Options are what the doctor looks at, and how.
type Options struct {
	Config  *config.Config
	Invalid error         // what config.Load said of it
	Timeout time.Duration // for each connection and each question
	Version string        // of this program
}

// A doctor looks at what a server with the configuration would rest on.
type doctor struct {
	Options
	report Report
}

// Run looks at everything that a server with the configuration would rest on. It changes nothing.
func Run(ctx context.Context, o Options) *Report {
	d := &doctor{Options: o}
	d.report.begin("configuration")
	if !d.examineConfig(o.Invalid) {
		return &d.report
	}
	d.report.begin("this machine")
	d.examineMachine()
	d.report.begin("rules")
	found := d.examineRules(ctx)
	d.report.begin("store")
	d.examineStore(ctx, found)
	return &d.report
}

// examineConfig tells whether enough of the configuration could be read to go on.
func (d *doctor) examineConfig(invalid error) bool {
	for _, warning := range d.Config.Warnings {
		d.report.warn("configuration", "", "%s", warning)
	}
	found, ok := errors.AsType[*config.Error](invalid)
	if !ok {
		d.report.ok("configuration", "valid")
		return true
	}
	for _, mistake := range found.Mistakes {
		d.report.fail("configuration", "serve would not start; docs/configuration.md lists all keys", "%v", mistake)
	}
	return !found.Unreadable
}
