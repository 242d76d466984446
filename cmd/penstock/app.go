package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/penstock-io/penstock/internal/config"
)

// app is the world that a run of the program sees: tests give it another.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	env            []string // as of os.Environ
	terminal       bool     // stderr is read by a person: colour and progress are welcome
	colour         bool     // stdout is, too

	output string // the value of -o
}

func (a *app) getenv(name string) string { return config.Getenv(a.env, name) }

// json tells whether data is wanted as JSON.
func (a *app) json() bool { return a.output == "json" }

// writeJSON writes a value to stdout, for people and programs to read.
func (a *app) writeJSON(value any) error {
	encoder := json.NewEncoder(a.stdout)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// warn tells what works, but should be changed.
func (a *app) warn(warnings ...string) {
	for _, warning := range warnings {
		fmt.Fprintf(a.stderr, "penstock: warning: %s\n", warning)
	}
}

// Exit codes. Scripts rely on them.
const (
	exitYes    = 0 // yes, allowed, valid, the same
	exitNo     = 1 // no, denied, invalid, differs
	exitUsage  = 2 // the command was not understood
	exitFailed = 3 // the service, or what it rests on, failed
)

// An exit is an error with its exit code. Without an error there is nothing left to say.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

// no ends the program with the answer no; err may be nil if it was given already.
func no(err error) error { return &exit{exitNo, err} }

// misused ends the program because of how it was called.
func misused(format string, args ...any) error {
	return &exit{exitUsage, fmt.Errorf(format, args...)}
}

// failed ends the program because something it needs did not work.
func failed(err error) error { return &exit{exitFailed, err} }

// run does what the arguments say and returns the exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := newRootCommand(a)
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	codeErrors(root)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitYes
	}
	coded, ok := errors.AsType[*exit](err)
	if !ok { // cobra did not get so far as to run a command
		coded = &exit{exitUsage, err}
	}
	if coded.err != nil {
		fmt.Fprintf(a.stderr, "penstock: %v\n", err) // with what was said of it on the way here
	}
	if coded.code == exitUsage {
		fmt.Fprintf(a.stderr, "See '%s --help'.\n", command.CommandPath())
	}
	return coded.code
}

// codeErrors sees to it that what a command returns has an exit code, so that the rest is known to
// be about usage.
func codeErrors(c *cobra.Command) {
	if run := c.RunE; run != nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			err := run(c, args)
			if _, coded := errors.AsType[*exit](err); err != nil && !coded {
				err = failed(err)
			}
			return err
		}
	}
	for _, child := range c.Commands() {
		codeErrors(child)
	}
}
