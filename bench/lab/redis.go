package lab

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-io/penstock/internal/redistest"
)

// Redis is a server that a section uses. Its methods end the section at an error.
type Redis struct{ *redistest.Server }

// Redis starts a server for the section.
func (b *Bench) Redis() Redis {
	s := Must(redistest.Launch(b))
	b.Cleanup(func() { _ = s.Close() }) // the measurement is complete
	return Redis{s}
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
