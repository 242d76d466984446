package race

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Command is the race as a program.
type Command struct {
	Name   string // as the user typed it, for the help
	Stdout io.Writer
	Stderr io.Writer
	Extra  []Way // ways beside Ways, such as a store

	// Launch starts a server to race on when the user names none. nil means
	// that the user must.
	Launch func(ctx context.Context) (addr string, stop func() error, err error)
}

type settings struct {
	Options
	format string
	svgDir string
}

// ErrUsage is wrapped by what was not understood.
var ErrUsage = errors.New("see --help")

// Run returns when the race is over; flag.ErrHelp when help was asked for and given.
func (c Command) Run(ctx context.Context, args []string) (err error) {
	s, err := c.parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return err
	}
	if err == nil && s.Addr == "" && c.Launch == nil {
		err = errors.New("no server to race on: give --redis ADDR")
	}
	if err != nil {
		return fmt.Errorf("%w; %w", err, ErrUsage)
	}
	if s.Addr == "" {
		addr, stop, err := c.Launch(ctx)
		if err != nil {
			return fmt.Errorf("start a Redis server (or give --redis ADDR): %w", err)
		}
		defer func() { err = errors.Join(err, stop()) }()
		s.Addr = addr
	}
	if isTerminal(c.Stderr) {
		s.Progress = func(done, total int, what string) {
			fmt.Fprintf(c.Stderr, "\r\x1b[K%d/%d %s", done+1, total, what)
		}
		defer fmt.Fprint(c.Stderr, "\r\x1b[K")
	}
	report, err := Run(ctx, s.Options)
	if err != nil {
		return err
	}
	return c.write(report, s)
}

func (c Command) write(r *Report, s settings) error {
	if s.svgDir != "" {
		files, err := r.WriteSVGs(s.svgDir, s.Contention)
		if err != nil {
			return err
		}
		fmt.Fprintf(c.Stderr, "wrote %s\n", strings.Join(files, ", "))
	}
	switch s.format {
	case "json":
		out := json.NewEncoder(c.Stdout)
		out.SetIndent("", "  ")
		return out.Encode(r)
	case "markdown":
		return r.WriteMarkdown(c.Stdout, s.Callers, s.RoundTrips)
	}
	if err := r.WriteTable(c.Stdout, s.Callers, s.RoundTrips); err != nil {
		return err
	}
	return r.WritePlots(c.Stdout, s.Contention, isTerminal(c.Stdout))
}

func (c Command) parse(args []string) (settings, error) {
	s := settings{Options: Options{Patience: 10 * time.Second}}
	flags := flag.NewFlagSet(c.Name, flag.ContinueOnError)
	flags.SetOutput(io.Discard) // a mistake is answered by one line, not by the whole help
	what := "`address` of a Redis or Valkey to race on"
	if c.Launch != nil {
		what += "; empty starts one for the run"
	}
	flags.StringVar(&s.Addr, "redis", "", what)
	flags.IntVar(&s.Nodes, "nodes", 4, "independent clients, each with its own connection")
	flags.IntVar(&s.Trials, "trials", 20, "bursts per cell; one more, not counted, warms up")
	flags.IntVar(&s.Limit.Calls, "limit", 10, "calls allowed per window")
	flags.DurationVar(&s.Limit.Window, "window", time.Minute, "the window, longer than a burst may take")
	callers := flags.String("callers", "50,100", "callers released at once, a `list`")
	roundTrips := flags.String("rtt", "0,1ms,2ms", "round trips added between nodes and server, a `list`")
	contention := flags.String("contention", "2,5,10,20,50,100", "callers of the plots (at 1ms), a `list`; empty for no plots")
	ways := flags.String("ways", "", "only these ways, a `list` of names; empty for all")
	flags.StringVar(&s.format, "o", "text", "output `format`: text, markdown or json")
	flags.StringVar(&s.svgDir, "svg", "", "write the plots as SVG into this `directory`")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(c.Stdout, helpText, c.Name, waysHelp(c.ways()), c.Name, c.Name)
		flags.SetOutput(c.Stdout)
		flags.PrintDefaults()
		return s, err
	} else if err != nil {
		return s, err
	}
	if flags.NArg() > 0 {
		return s, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if !slices.Contains([]string{"text", "markdown", "json"}, s.format) {
		return s, fmt.Errorf("-o %q: want text, markdown or json", s.format)
	}
	var errs [4]error
	s.Callers, errs[0] = parseList("--callers", *callers, strconv.Atoi)
	s.RoundTrips, errs[1] = parseList("--rtt", *roundTrips, time.ParseDuration)
	s.Contention, errs[2] = parseList("--contention", *contention, strconv.Atoi)
	s.Ways, errs[3] = c.choose(*ways)
	return s, errors.Join(errs[:]...)
}

func (c Command) ways() []Way { return slices.Concat(Ways(), c.Extra) }

func (c Command) choose(list string) ([]Way, error) {
	if list == "" {
		return c.ways(), nil
	}
	return parseList("--ways", list, func(name string) (Way, error) {
		i := slices.IndexFunc(c.ways(), func(w Way) bool { return w.Name == name })
		if i < 0 {
			return Way{}, errors.New("no such way")
		}
		return c.ways()[i], nil
	})
}

func parseList[T any](flagName, list string, parse func(string) (T, error)) ([]T, error) {
	var values []T
	for part := range strings.SplitSeq(list, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		v, err := parse(part)
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", flagName, part, err)
		}
		values = append(values, v)
	}
	return values, nil
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	stat, err := f.Stat()
	return err == nil && stat.Mode()&os.ModeCharDevice != 0
}
