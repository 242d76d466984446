package redisstore

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/penstock-io/penstock/algorithm"
	"github.com/penstock-io/penstock/internal/racetest"
	"github.com/penstock-io/penstock/internal/redistest"
)

// Most writes do not set the expiry of their key. It is late enough for every slot anyway.
func TestKeysLiveLongEnough(t *testing.T) {
	t.Parallel()
	racetest.Skip(t, racetest.OneGoroutine)
	p := newTwoPaths(t)
	p.real = true
	seen, err := p.compare(takeScript.text, 3, 4000)
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"alive", "expired"} {
		if seen[what] < 100 {
			t.Errorf("%d slots were %s, so little was checked (%v)", seen[what], what, seen)
		}
	}
	stats, err := redistest.Command(p.addr, "INFO", "commandstats")
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"set", "setrange"} {
		_, after, _ := strings.Cut(stats, "cmdstat_"+command+":calls=")
		calls, _, _ := strings.Cut(after, ",")
		if n, err := strconv.Atoi(calls); n < 200 {
			t.Errorf("%d writes by %s, so little was checked (%v)", n, command, err)
		}
	}
}

// CheckLives compares a version of the script with the script in random runs on the server's clock: what they reply
// and write, and when keys expire.
func CheckLives(s *Store, addr, script string) error {
	p := newPaths(s, addr, takeScript.text)
	p.real = true
	_, err := p.compare(script, 3, 1500)
	return err
}

// lives checks what a run has left of each subject: a value, and when it expires.
func (p *twoPaths) lives(left string, clock int64, seen map[string]int) error {
	for len(left) > 0 {
		n, digits := int(binary.BigEndian.Uint16([]byte(left))), int(binary.BigEndian.Uint16([]byte(left[2:])))
		value, expiry := left[4:4+n], left[4+n:4+n+digits]
		left = left[4+n+digits:]
		if expiry == "" || n%slotSize != 1 || value[0] != StateFormat { // not written by a run
			continue
		}
		end, err := strconv.ParseInt(expiry, 10, 64)
		if err != nil {
			return err
		}
		for slot := value[1:]; slot != ""; slot = slot[slotSize:] {
			at, life := uint56(slot[7:]), algorithm.CodeLife(slot[14])
			for _, m := range p.meters {
				if int64(m.Fingerprint) == uint56(slot) && m.Kind <= algorithm.KindCounter {
					life = min(life, m.Life)
				}
			}
			if at+life <= clock {
				seen["expired"]++
				continue
			}
			seen["alive"]++
			if end < at+life {
				return fmt.Errorf("the slot %q needs its key for %v and the key expires %v earlier", slot[:slotSize], us(at+life-clock), us(at+life-end))
			}
		}
	}
	return nil
}

func us(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
