package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/penstock-io/penstock"
)

// A Study measures the accuracy of one limit on a large amount of traffic. It is divided into slices, each with
// its own seed and stores, so that it can be resumed and uses all cores.
type Study struct {
	Traffic  Traffic        `json:"traffic"`
	Requests int64          `json:"requests"`
	Slice    int64          `json:"slice"` // requests per slice
	Limit    penstock.Limit `json:"-"`
	Text     string         `json:"limit"`

	State    string                `json:"-"` // file that records which slices are done; "": none
	Workers  int                   `json:"-"`
	NewStore func() (Store, error) `json:"-"`
	Progress func(requests int64)  `json:"-"` // may be nil
}

// A StudyResult is the result of a study, without and with counting denied requests.
type StudyResult struct {
	Study    *Study   `json:"study"`
	Admitted Accuracy `json:"counting_admitted"`
	All      Accuracy `json:"counting_all"`
	Denied   [2]int64 `json:"denied"`
	Resumed  int64    `json:"-"` // requests taken from the state file
}

// A slice is the part of a study that runs as a unit.
type slice struct {
	Admitted Accuracy `json:"admitted"`
	All      Accuracy `json:"all"`
	Denied   [2]int64 `json:"denied"`
}

// state is the contents of the state file.
type state struct {
	Study  *Study         `json:"study"`
	Slices map[int]*slice `json:"slices"`
}

// Run runs the slices that are not done yet.
func (s *Study) Run(ctx context.Context) (*StudyResult, error) {
	s.Text = s.Limit.String()
	if s.Slice < 1 || s.Requests < s.Slice {
		return nil, fmt.Errorf("slices of %d requests; there can be from 1 to all %d", s.Slice, s.Requests)
	}
	saved, err := s.load()
	if err != nil {
		return nil, err
	}
	slices := int((s.Requests + s.Slice - 1) / s.Slice)
	result := &StudyResult{Study: s, Resumed: min(s.Requests, int64(len(saved.Slices))*s.Slice)}
	if err := s.work(ctx, slices, saved, result.Resumed); err != nil {
		return nil, err
	}
	for i := range slices { // in order, so that sums are always the same
		one := saved.Slices[i]
		result.Admitted.sum(&one.Admitted)
		result.All.sum(&one.All)
		result.Denied[0] += one.Denied[0]
		result.Denied[1] += one.Denied[1]
	}
	return result, nil
}

// work runs the missing slices on all workers.
func (s *Study) work(ctx context.Context, slices int, saved *state, resumed int64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var first error
	next, done := 0, resumed
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		for next < slices && saved.Slices[next] != nil {
			next++
		}
		next++
		return next - 1, next <= slices && first == nil
	}
	finish := func(i int, one *slice, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			saved.Slices[i] = one
			done += one.Admitted.Compared
			err = s.save(saved)
		}
		if err != nil && first == nil {
			first = err
			cancel()
		}
		if s.Progress != nil {
			s.Progress(done)
		}
	}
	var wait sync.WaitGroup
	for range max(1, s.Workers) {
		wait.Go(func() {
			for {
				i, ok := take()
				if !ok {
					return
				}
				one, err := s.run(ctx, i)
				finish(i, one, err)
			}
		})
	}
	wait.Wait()
	return first
}

// run simulates one slice. Its first two windows only fill the counters.
func (s *Study) run(ctx context.Context, index int) (*slice, error) {
	traffic := s.Traffic
	traffic.Seed = s.Traffic.Seed + uint64(index)
	all := s.Limit
	all.CountDenied = true
	simulation := &Simulation{
		Traffic: traffic, Requests: min(s.Slice, s.Requests-int64(index)*s.Slice), Skip: 2 * s.Limit.Window,
		Limits: []penstock.Limit{s.Limit, all}, Nodes: 1, Sharing: Shared, NewStore: s.NewStore,
	}
	results, err := simulation.Run(ctx)
	if err != nil {
		return nil, err
	}
	return &slice{results[0].Accuracy, results[1].Accuracy, [2]int64{results[0].Denied, results[1].Denied}}, nil
}

func (s *Study) load() (*state, error) {
	saved := &state{Study: s, Slices: map[int]*slice{}}
	if s.State == "" {
		return saved, nil
	}
	text, err := os.ReadFile(s.State)
	if errors.Is(err, fs.ErrNotExist) {
		return saved, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the state of the study: %w", err)
	}
	var was state
	if err := json.Unmarshal(text, &was); err != nil || was.Study == nil || was.Slices == nil {
		return nil, fmt.Errorf("%s is not the state of a study (%v); give another file with --state", s.State, err)
	}
	if was.Study.Traffic != s.Traffic || was.Study.Requests != s.Requests || was.Study.Slice != s.Slice || was.Study.Text != s.Text {
		return nil, fmt.Errorf("%s is the state of another study (%d requests of %+v under %s); give another file with --state", s.State, was.Study.Requests, was.Study.Traffic, was.Study.Text)
	}
	for i, one := range was.Slices {
		if i >= 0 && one != nil {
			saved.Slices[i] = one
		}
	}
	return saved, nil
}

// save replaces the state file atomically, so that an interruption leaves the old one.
func (s *Study) save(saved *state) error {
	if s.State == "" {
		return nil
	}
	text, err := json.Marshal(saved)
	if err != nil {
		return err
	}
	next := filepath.Join(filepath.Dir(s.State), "."+filepath.Base(s.State)+".next")
	if err := os.WriteFile(next, text, 0o600); err != nil {
		return fmt.Errorf("save the state of the study: %w", err)
	}
	return os.Rename(next, s.State)
}

// DefaultStudy is the study in the documentation: as many requests and clients as Cloudflare's, in bursts, under
// a limit of 100 a minute.
func DefaultStudy() Study {
	return Study{
		Traffic:  Traffic{Model: Bursty, Rate: 700, Keys: 270_000, Zipf: 1.1, Shift: 100, Seed: 1},
		Requests: 400_000_000, Slice: 2_000_000,
		Limit: penstock.Limit{Algorithm: penstock.SlidingWindowCounter, Count: 100, Window: time.Minute},
	}
}
