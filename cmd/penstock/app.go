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

// app is the environment of a run of the program. Tests replace it.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	env            []string // in the form of os.Environ
	terminal       bool     // stderr is a terminal: use colour and show progress
	colour         bool     // stdout is a terminal, too

	ignored []string // flags of the command line that were ignored

	output string // the value of -o
	report string // the value of --report
}

func (a *app) getenv(name string) string { return config.Getenv(a.env, name) }

// json reports whether the output is JSON.
func (a *app) json() bool { return a.output == "json" }

// writeJSON writes a value to stdout, for people and programs to read.
func (a *app) writeJSON(value any) error {
	encoder := json.NewEncoder(a.stdout)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// warn prints settings that work but should be changed.
func (a *app) warn(warnings ...string) {
	for _, warning := range warnings {
		fmt.Fprintf(a.stderr, "penstock: warning: %s\n", warning)
	}
}

// Exit codes. Scripts rely on them.
const (
	exitYes    = 0 // yes, allowed, valid, the same
	exitNo     = 1 // no, denied, invalid, differs
	exitUsage  = 2 // the command line is invalid
	exitFailed = 3 // the service, or something it depends on, failed
)

// An exit is an error with its exit code. If the error is nil, everything is already printed.
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

// exitWithNo ends the program with the answer no. err may be nil if the reason is already printed.
func exitWithNo(err error) error { return &exit{exitNo, err} }

// exitWith ends the program with the answer yes or no, which is already printed.
func exitWith(yes bool) error {
	if yes {
		return nil
	}
	return exitWithNo(nil)
}

// misused ends the program because of an invalid command line.
func misused(format string, args ...any) error {
	return &exit{exitUsage, fmt.Errorf(format, args...)}
}

// failed ends the program because something it needs did not work.
func failed(err error) error { return &exit{exitFailed, err} }

// run runs the command in the arguments and returns the exit code.
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
	if !ok { // cobra failed before it ran a command
		coded = &exit{exitUsage, err}
	}
	if coded.err != nil {
		fmt.Fprintf(a.stderr, "penstock: %v\n", err) // including wrapping errors
	}
	if coded.code == exitUsage {
		fmt.Fprintf(a.stderr, "See '%s --help'.\n", command.CommandPath())
	}
	return coded.code
}

// codeErrors gives every error of a command an exit code, so that any other error is about usage.
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
