package trafficdb

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"

	"github.com/penstock-io/penstock/internal/traffic"
)

// counted is what a node counted in a minute. Fields may be added: what does not know them ignores them.
type counted struct {
	Total traffic.Counts            `json:"total"`
	Rules map[string]traffic.Counts `json:"rules"`
	Store traffic.StoreCounts       `json:"store"`

	// DecisionP99 and StoreP99 are of the five minutes before, in microseconds.
	DecisionP99 int64 `json:"decision_p99_us"`
	StoreP99    int64 `json:"store_p99_us"`

	Marks []traffic.Mark `json:"marks,omitempty"`
}

func newCounted(s traffic.Stats, marks []traffic.Mark) *counted {
	c := &counted{
		Total: s.Total, Rules: map[string]traffic.Counts{}, Store: s.StoreTotal, Marks: marks,
		DecisionP99: s.Decisions.Percentile(99).Microseconds(), StoreP99: s.Store.Percentile(99).Microseconds(),
	}
	for i := range s.Rules { // most denied first
		name := s.Rules[i].Rule
		if i >= maxRules {
			name = traffic.Others
		}
		sum := c.Rules[name]
		sum.Add(s.Rules[i].Total)
		c.Rules[name] = sum
	}
	return c
}

// encode returns compressed JSON.
func (c *counted) encode() []byte {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_ = json.NewEncoder(w).Encode(c) // neither fails for numbers and texts in memory
	_ = w.Close()
	return packed.Bytes()
}

// maxDecoded bounds what a row becomes.
const maxDecoded = 1 << 20

func decode(data []byte) (*counted, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("read the history of requests: %w", err)
	}
	c := new(counted)
	if err := json.NewDecoder(io.LimitReader(r, maxDecoded)).Decode(c); err != nil {
		return nil, fmt.Errorf("read the history of requests: %w", err)
	}
	return c, nil
}
