package lab

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/penstock-io/penstock/internal/child"
	"github.com/penstock-io/penstock/internal/redistest"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/redisstore"
)

// childVariable is the environment variable with the role and the arguments of a child.
const childVariable = "PENSTOCK_TEST_BENCH_CHILD"

// ServeIfChild does what a role says, and does not return, if a parent started this process with Self. A program and
// its tests call it first.
func ServeIfChild(roles map[string]func(args []string) error) {
	args := strings.Split(os.Getenv(childVariable), "\n")
	if args[0] == "" {
		return
	}
	err := errors.New("no such role")
	if serve := roles[args[0]]; serve != nil {
		err = serve(args[1:])
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%q: %v\n", args, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Self returns the command that runs this program again in a role.
func Self(role string, args ...string) *exec.Cmd {
	cmd := exec.Command(Must(os.Executable()))
	cmd.Env = append(os.Environ(), childVariable+"="+strings.Join(append([]string{role}, args...), "\n"))
	return cmd
}

// A Server is a process that listens at an address.
type Server struct {
	Addr string
	*child.Process
	Log string // file
}

// Start starts a command in a directory, waits until it listens at the address, and stops it at the end.
func (b *Bench) Start(dir, name, addr string, cmd *exec.Cmd) *Server {
	s := &Server{Addr: addr, Log: filepath.Join(dir, name+".log")}
	cmd.Dir = dir
	s.Process = Must(child.Start(cmd, s.Log))
	b.Cleanup(s.stop)
	b.Await(s, "listen at "+addr, func() bool {
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return s
}

// Await waits until a server is ready. The error has the end of its log.
func (b *Bench) Await(s *Server, what string, ready func() bool) {
	for giveUp := time.Now().Add(30 * time.Second); !ready(); time.Sleep(20 * time.Millisecond) {
		switch {
		case b.Err() != nil:
			Check(b.Err())
		case s.Exited():
			Check(fmt.Errorf("it ended:\n%s", child.LogTail(s.Log)))
		case time.Now().After(giveUp):
			Check(fmt.Errorf("it does not %s:\n%s", what, child.LogTail(s.Log)))
		}
	}
}

// stop sends SIGTERM first: nginx leaves its workers behind if it is killed.
func (s *Server) stop() {
	_ = s.Signal(syscall.SIGTERM) // fails only if it has ended already
	select {
	case <-s.Done():
	case <-time.After(5 * time.Second):
		s.Kill()
	}
}

// CPU returns the processor time that a process and its children have used, in user mode and in the kernel. Unlike
// elapsed time it does not grow while other processes use the processor.
func CPU(pid int) (time.Duration, error) {
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux there is
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	used, found := time.Duration(0), false
	for _, stat := range stats {
		text, _ := os.ReadFile(stat) // nothing if it has ended
		// pid (name) state ppid ... utime is the 14th field, stime the 15th; the name may hold spaces.
		begin, rest, _ := strings.Cut(string(text), " (")
		fields := strings.Fields(rest[strings.LastIndex(rest, ")")+1:])
		if len(fields) < 13 || begin != strconv.Itoa(pid) && fields[1] != strconv.Itoa(pid) {
			continue
		}
		user, userErr := strconv.Atoi(fields[11])
		system, systemErr := strconv.Atoi(fields[12])
		err = errors.Join(err, userErr, systemErr)
		used, found = used+time.Duration(user+system)*tick, true
	}
	if !found {
		err = fmt.Errorf("processor time of process %d: it has ended", pid)
	}
	return used, err
}

// OwnCPU returns the processor time that this process has used so far.
func OwnCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0 // cannot fail for our own process
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Build builds a Go program of the module in a directory, with the versions of that module.
func (b *Bench) Build(module, to, program string) {
	b.Step("build %s", program)
	if out, err := exec.CommandContext(b, "go", "build", "-C", module, "-trimpath", "-o", to, program).CombinedOutput(); err != nil {
		Check(fmt.Errorf("%w\n%s", err, out))
	}
}

// FreeAddr returns an unused address.
func FreeAddr() string {
	l := Must(net.Listen("tcp", "127.0.0.1:0"))
	defer l.Close()
	return l.Addr().String()
}

// Write writes a file, with its directory, and returns its name.
func Write(dir, name, text string) string {
	file := filepath.Join(dir, name)
	Check(os.MkdirAll(filepath.Dir(file), 0o755)) // nginx workers run as another user
	Check(os.WriteFile(file, []byte(text), 0o644))
	return file
}

// Redis is a server that a section uses. Its methods end the section at an error.
type Redis struct{ *redistest.Server }

// Redis starts a server for the section.
func (b *Bench) Redis() Redis {
	s := Must(redistest.Launch(b))
	b.Cleanup(func() { _ = s.Close() }) // the measurement is complete
	return Redis{s}
}

// Store opens our store on a server until the end of the scope.
func (b *Bench) Store(addr string) *redisstore.Store {
	const timeout = 30 * time.Second // a busy machine slows a benchmark down and does not end it
	store := Must(redisstore.Open(redisstore.Options{Addresses: []string{addr}, Timeout: timeout}))
	b.Cleanup(func() { _ = store.Close() })
	return store
}

// Memory opens our store in memory until the end of the scope.
func (b *Bench) Memory(o memstore.Options) *memstore.Store {
	store := Must(memstore.New(o))
	b.Cleanup(func() { _ = store.Close() })
	return store
}

// Command sends a command and returns its reply.
func (r Redis) Command(args ...string) string { return Must(redistest.Command(r.Addr, args...)) }

// Number sends a command and returns its reply, a number.
func (r Redis) Number(args ...string) float64 {
	return Must(strconv.ParseFloat(r.Command(args...), 64))
}

// Info returns one field of a section of INFO.
func (r Redis) Info(section, field string) string {
	for line := range strings.Lines(r.Command("INFO", section)) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); name == field {
			return value
		}
	}
	Check(fmt.Errorf("INFO %s has no field %q", section, field))
	return ""
}

// Calls returns how often the server has run each command, including those inside scripts and transactions.
func (r Redis) Calls() map[string]float64 {
	calls := map[string]float64{}
	for line := range strings.Lines(r.Command("INFO", "commandstats")) {
		if name, stats, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls="); ok {
			number, _, _ := strings.Cut(stats, ",")
			calls[name] = Must(strconv.ParseFloat(number, 64))
		}
	}
	return calls
}

func (r Redis) infoNumber(section, field string) float64 {
	return Must(strconv.ParseFloat(r.Info(section, field), 64))
}

// CPU returns the processor time that the server has used so far, in seconds.
func (r Redis) CPU() float64 {
	return r.infoNumber("cpu", "used_cpu_user") + r.infoNumber("cpu", "used_cpu_sys")
}

// BytesPerKey returns by how much the memory of the empty server grows per key. fill connects in
// its scope, and fills that many keys.
func (r Redis) BytesPerKey(b *Bench, keys int, fill func(keys int)) float64 {
	b.Scope(func() { fill(1) }) // a script stays in the server after its first run
	r.Command("FLUSHALL", "SYNC")
	before := r.idleMemory(b)
	b.Scope(func() { fill(keys) })
	return (r.idleMemory(b) - before) / float64(keys)
}

// idleMemory returns what the server has allocated, including its key tables, once it has noticed that its clients and
// their buffers are gone.
func (r Redis) idleMemory(b *Bench) float64 {
	for r.infoNumber("clients", "connected_clients") != 1 { // our own connection
		Check(b.Err())
		time.Sleep(time.Millisecond)
	}
	return r.infoNumber("memory", "used_memory")
}
