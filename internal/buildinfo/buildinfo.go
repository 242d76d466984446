// Package buildinfo reports what this program was built from. Release builds set its variables with linker flags. It
// is separate so that the flags do not depend on the package that prints them.
package buildinfo

import (
	"fmt"
	"runtime/debug"
)

// Set by the linker: -X github.com/penstock-io/penstock/internal/buildinfo.version=v0.1.0
var version, commit, date string

// Info is what the program was built from. What is not known is "unknown".
type Info struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Date    string `json:"date"` // of the commit, in RFC 3339
	Go      string `json:"go"`
}

// Read returns what the linker was told, and for the rest what the go command recorded.
func Read() Info {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return read(info)
}

func read(info *debug.BuildInfo) Info {
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	recorded := settings["vcs.revision"]
	if recorded != "" && settings["vcs.modified"] == "true" {
		recorded += " with changes"
	}
	return Info{
		Version: firstOf(version, info.Main.Version),
		Commit:  firstOf(commit, recorded),
		Date:    firstOf(date, settings["vcs.time"]),
		Go:      firstOf(info.GoVersion),
	}
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return "unknown"
}

func (i Info) String() string {
	return fmt.Sprintf("%s (commit %s, %s, %s)", i.Version, i.Commit, i.Date, i.Go)
}
