package main

import (
	"context"
	"errors"
	"time"

	"github.com/penstock-io/penstock/internal/config"
)

// doctorOptions are what the doctor looks at, and how.
type doctorOptions struct {
	config  *config.Config
	invalid error         // what config.Load said of it
	timeout time.Duration // for each connection and each question
	version string        // of this program
}

// A doctor looks at what a server with the configuration would rest on.
type doctor struct {
	doctorOptions
	report report
}

// runDoctor looks at everything that a server with the configuration would rest on. It changes nothing.
func runDoctor(ctx context.Context, o doctorOptions) *report {
	d := &doctor{doctorOptions: o}
	d.report.begin("configuration")
	if !d.examineConfig(o.invalid) {
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
