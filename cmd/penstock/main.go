package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	_ "time/tzdata" // calendar limits find their time zones on every system

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/penstock-io/penstock/internal/buildinfo"
	"github.com/penstock-io/penstock/internal/config"
)

func main() {
	a := realApp()
	args, ignored := arguments(os.Args)
	a.ignored = ignored
	os.Exit(a.run(context.Background(), args))
}

// arguments returns those of the command line. If the program is run like envoyproxy/ratelimit, by the name
// ratelimit and without a command, it serves with the configuration in its environment and ignores all flags, as that
// service does. Their names are returned, without their values, which can be secret.
func arguments(line []string) (args, ignored []string) {
	args = line[1:]
	if filepath.Base(line[0]) != "ratelimit" || len(args) > 0 && (!strings.HasPrefix(args[0], "-") || slices.Contains([]string{"-h", "--help", "--version"}, args[0])) {
		return args, nil
	}
	for _, arg := range args {
		if strings.HasPrefix(arg, "-") {
			name, _, _ := strings.Cut(arg, "=")
			ignored = append(ignored, name)
		}
	}
	return []string{"serve", "--envoy-ratelimit-env"}, ignored
}

func realApp() *app {
	plain := os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb"
	return &app{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, env: os.Environ(),
		terminal: !plain && term.IsTerminal(int(os.Stderr.Fd())),
		colour:   !plain && term.IsTerminal(int(os.Stdout.Fd())),
	}
}

func newRootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "penstock",
		Short: "A distributed rate limiter",
		Long: `Penstock is a distributed rate limiter: a gateway in front of your servers, or a service
that they or their proxies query. Counters are in memory or shared through Redis.

Data goes to stdout, everything else to stderr. Exit status: 0 success or allowed,
1 denied, invalid or different, 2 usage error, 3 a server or store failed.`,
		Example: `  penstock serve --demo                        # try it: a gateway with sample rules
  penstock serve --config penstock.yaml
  penstock rules validate rules.yaml
  penstock explain --rules rules.yaml path=/login method=POST ip=198.51.100.7
  penstock check path=/login method=POST ip=198.51.100.7`,
		Args:                       noSuchCommand,
		SilenceErrors:              true,
		SilenceUsage:               true,
		SuggestionsMinimumDistance: 2,
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			if a.output != "text" && a.output != "json" {
				return misused("output %q is not text or json", a.output)
			}
			return a.checkVariables(c)
		},
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
		Version: describe(buildinfo.Read()),
	}
	root.SetVersionTemplate("penstock {{.Version}}\n")
	root.PersistentFlags().StringVarP(&a.output, "output", "o", "text", "output `format`: text or json")
	completeValues(root, "output", "text", "json")
	root.AddCommand(newServeCommand(a), newCheckCommand(a), newExplainCommand(a), newRulesCommand(a), newKeysCommand(a), newDoctorCommand(a), newHealthCommand(a), newManCommand(a), newVersionCommand(a))
	root.AddCommand(newBacktestCommand(a), newSuggestCommand(a), newPlanCommand(a), newSimulateCommand(a), newBenchCommand(a))
	root.AddCommand(newStatusCommand(a), newNodesCommand(a), newBansCommand(), newBlockCommand(a), newAnnotationsCommand(a), newTailCommand(a), newTopCommand(a), newUsersCommand(a), newTokensCommand(a), newEntitlementsCommand(a))
	return root
}

// checkVariables rejects misspelt environment variables before a command runs. Commands that load the whole
// configuration report them with its other errors.
func (a *app) checkVariables(c *cobra.Command) error {
	switch c.Name() {
	case "serve", "doctor", "health", "version", "help", "penstock":
		return nil
	}
	if err := errors.Join(config.UnknownVariables(a.env)...); err != nil {
		return misused("%w", err)
	}
	return nil
}
