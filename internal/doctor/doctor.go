package doctor

import (
	"context"
	"errors"
	"time"

	"github.com/penstock-io/penstock/internal/config"
)

// Options configure what the doctor checks, and how.
type Options struct {
	Config  *config.Config
	Invalid error         // the error of config.Load
	Timeout time.Duration // for each connection and each command
	Version string        // of this program
}

// A doctor checks what a server with the configuration would depend on.
type doctor struct {
	Options
	Report
}

// Run checks everything that a server with the configuration would depend on. It changes nothing.
func Run(ctx context.Context, o Options) *Report {
	d := &doctor{Options: o}
	d.begin("configuration")
	if !d.examineConfig(o.Invalid) {
		return &d.Report
	}
	d.begin("this machine")
	d.examineDataDir()
	d.examineOpenFiles()
	d.examineListeners()
	d.examineCertificates()
	d.examineProxies()
	d.begin("rules")
	found := d.examineRules(ctx)
	d.begin("store")
	d.examineStore(ctx, found)
	return &d.Report
}

// examineConfig reports whether enough of the configuration could be read to continue.
func (d *doctor) examineConfig(invalid error) bool {
	for _, warning := range d.Config.Warnings {
		d.warn("configuration", "", "%s", warning)
	}
	found, ok := errors.AsType[*config.Error](invalid)
	if !ok {
		d.ok("configuration", "valid")
		return true
	}
	for _, mistake := range found.Mistakes {
		d.fail("configuration", "serve would not start; docs/reference/configuration.md lists all keys", "%v", mistake)
	}
	return !found.Unreadable
}
