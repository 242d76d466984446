package report

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
)

// A Machine is where the figures were measured; they are not comparable with those of another.
type Machine struct {
	CPU    string `json:"cpu"` // model
	CPUs   int    `json:"cpus"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
	Redis  string `json:"redis,omitempty"` // versions, if they are installed
	Nginx  string `json:"nginx,omitempty"`
}

// ThisMachine describes the machine that this program runs on.
func ThisMachine() Machine {
	cpuinfo, _ := os.ReadFile("/proc/cpuinfo") // only Linux has it
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return Machine{
		CPU: firstMatch(`(?m)^model name\s*: (.*)$`, cpuinfo), CPUs: runtime.NumCPU(),
		Kernel: runtime.GOOS + "/" + runtime.GOARCH + " " + firstMatch(`^([0-9.]+)`, kernel), Go: strings.TrimPrefix(runtime.Version(), "go"),
		Redis: programVersion(`v=([0-9.]+)`, "redis-server", "--version"),
		Nginx: programVersion(`nginx/([0-9.]+)`, "nginx", "-v"),
	}
}

func programVersion(pattern, name string, args ...string) string {
	out, _ := exec.Command(name, args...).CombinedOutput() // a program that is not installed has no version
	return firstMatch(pattern, out)
}

func firstMatch(pattern string, text []byte) string {
	if m := regexp.MustCompile(pattern).FindSubmatch(text); m != nil {
		return string(m[1])
	}
	return ""
}

// String returns one line.
func (m Machine) String() string {
	parts := []string{fmt.Sprintf("%d × %s", m.CPUs, m.CPU), m.Kernel, "Go " + m.Go}
	for _, p := range []struct{ name, version string }{{"Redis ", m.Redis}, {"nginx ", m.Nginx}} {
		if p.version != "" {
			parts = append(parts, p.name+p.version)
		}
	}
	return strings.Join(parts, ", ")
}

// Commit returns the short name of the commit that is checked out, with a plus sign if Go code differs from it.
func Commit() string {
	name, err := exec.Command("git", "rev-parse", "--short=10", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	commit := strings.TrimSpace(string(name))
	if changes, err := exec.Command("git", "status", "--porcelain", "--", ":/*.go", ":/*.lua").Output(); err != nil || len(changes) > 0 {
		commit += "+"
	}
	return commit
}
