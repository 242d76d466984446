package simulate

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Models of traffic.
const (
	Poisson = "poisson" // independent requests at a constant rate
	Bursty  = "bursty"  // for 5 s on average at 3.4 times the rate, then for 15 s at a fifth of it
	Diurnal = "diurnal" // the rate follows the hour: 1.8 times at its height, a fifth at its lowest
	Attack  = "attack"  // Poisson, and one more client that sends as much as all others, every other minute
	Retries = "retries" // Poisson, and clients that try again after a second when they are denied, up to 5 times
)

// Models lists all of them.
var Models = []string{Poisson, Bursty, Diurnal, Attack, Retries}

// Traffic describes the generated requests.
type Traffic struct {
	Model string  `json:"model"`
	Rate  float64 `json:"requests_per_second"` // average over all clients
	Keys  int     `json:"keys"`
	Zipf  float64 `json:"zipf"`       // the k-th key gets a share of requests in proportion to (Shift+k)^-Zipf, above 1; 0: all get the same
	Shift float64 `json:"zipf_shift"` // from 1; a larger one makes the busiest keys less busy
	Seed  uint64  `json:"seed"`
}

// Bounds of traffic.
const (
	maxKeys = 10_000_000
	maxRate = 1e7
)

// Validate reports every error.
func (t *Traffic) Validate() error {
	var errs []error
	if !slices.Contains(Models, t.Model) {
		errs = append(errs, fmt.Errorf("unknown traffic %q; known are %v", t.Model, Models))
	}
	if !(t.Rate > 0 && t.Rate <= maxRate) {
		errs = append(errs, fmt.Errorf("rate %v is not above 0 and at most %v requests a second", t.Rate, maxRate))
	}
	if t.Keys < 1 || t.Keys > maxKeys {
		errs = append(errs, fmt.Errorf("%d keys; there can be from 1 to %d", t.Keys, maxKeys))
	}
	if t.Zipf != 0 && !(t.Zipf > 1 && t.Zipf <= 10) {
		errs = append(errs, fmt.Errorf("zipf exponent %v is not 0 or above 1 and at most 10", t.Zipf))
	}
	if t.Zipf != 0 && !(t.Shift >= 1 && t.Shift <= 1e9) {
		errs = append(errs, fmt.Errorf("zipf shift %v is not from 1 to 1e9", t.Shift))
	}
	return errors.Join(errs...)
}

// start is when all traffic begins. Fixed windows are aligned to it.
var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// A request is one key at one instant.
type request struct {
	at    int64 // µs since start
	key   int
	tries int // attempts before it
}

// A stream generates requests in order of time.
type stream struct {
	*Traffic
	random *rand.Rand
	zipf   *rand.Zipf
	now    float64 // seconds since start, of the last base request
	until  float64 // end of the current burst or pause
	burst  bool
	attack float64 // when the attacker sends next
	base   request
	again  []request // to send again; in order of time, as denials are and each waits equally long
}

const (
	burstRate, pauseRate = 3.4, 0.2
	burstFor, pauseFor   = 5.0, 15.0
	attackFor            = 60.0
	retryAfter, maxTries = time.Second, 5
)

func (t *Traffic) stream() *stream {
	s := &stream{Traffic: t, random: rand.New(rand.NewPCG(t.Seed, 0x70656e73746f636b)), attack: math.Inf(1)}
	if t.Zipf > 0 {
		s.zipf = rand.NewZipf(s.random, t.Zipf, t.Shift, uint64(t.Keys-1))
	}
	if t.Model == Attack {
		s.attack = s.random.ExpFloat64() / t.Rate
	}
	s.base = s.nextBase()
	return s
}

// keys returns the number of different keys in the stream.
func (t *Traffic) keys() int {
	if t.Model == Attack {
		return t.Keys + 1
	}
	return t.Keys
}

// next returns the next request.
func (s *stream) next() request {
	at := float64(s.base.at) / 1e6
	if len(s.again) > 0 && s.again[0].at <= s.base.at {
		r := s.again[0]
		s.again = s.again[1:]
		return r
	}
	if s.attack < at {
		r := request{at: int64(s.attack * 1e6), key: s.Keys}
		s.attack += s.random.ExpFloat64() / s.Rate
		if math.Mod(s.attack, 2*attackFor) >= attackFor {
			s.attack = (math.Floor(s.attack/(2*attackFor)) + 1) * 2 * attackFor
		}
		return r
	}
	r := s.base
	s.base = s.nextBase()
	return r
}

func (s *stream) nextBase() request {
	s.now = s.gap()
	key := s.random.IntN(s.Keys)
	if s.zipf != nil {
		key = int(s.zipf.Uint64())
	}
	return request{at: int64(s.now * 1e6), key: key}
}

// gap returns the time of the next base request.
func (s *stream) gap() float64 {
	now := s.now
	switch s.Model {
	case Bursty:
		for {
			rate, length := s.Rate*pauseRate, pauseFor
			if s.burst {
				rate, length = s.Rate*burstRate, burstFor
			}
			if s.until == 0 {
				s.until = now + length*s.random.ExpFloat64()
			}
			if next := now + s.random.ExpFloat64()/rate; next < s.until {
				return next
			}
			now, s.until, s.burst = s.until, 0, !s.burst
		}
	case Diurnal:
		for {
			now += s.random.ExpFloat64() / (1.8 * s.Rate)
			if s.random.Float64()*1.8 < 1+0.8*math.Sin(2*math.Pi*now/86_400) {
				return now
			}
		}
	}
	return now + s.random.ExpFloat64()/s.Rate
}

// denied reports to the stream that a request was denied.
func (s *stream) denied(r request) {
	if s.Model == Retries && r.tries < maxTries {
		s.again = append(s.again, request{r.at + retryAfter.Microseconds(), r.key, r.tries + 1})
	}
}
