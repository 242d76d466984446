package traffic

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/axiomhq/hyperloglog"
)

// Times are durations as a histogram. The zero Times are none. Times of several nodes can be added up.
type Times struct{ counts *hdrhistogram.Histogram }

// newHistogram counts from a microsecond to a minute, with an error of 1 %.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, longest.Microseconds(), 2)
}

// longest is what longer durations count as.
const longest = time.Minute

// Count returns how many durations there are.
func (t Times) Count() int64 {
	if t.counts == nil {
		return 0
	}
	return t.counts.TotalCount()
}

// Percentile returns the duration that the given percentage does not exceed; 0 if there are none.
func (t Times) Percentile(percent float64) time.Duration {
	if t.counts == nil {
		return 0
	}
	return time.Duration(t.counts.ValueAtQuantile(percent)) * time.Microsecond
}

func (t *Times) add(u Times) {
	if u.counts == nil {
		return
	}
	if t.counts == nil {
		t.counts = newHistogram()
	}
	t.counts.Merge(u.counts)
}

func (t *Times) record(d time.Duration) {
	if t.counts == nil {
		t.counts = newHistogram()
	}
	us := min(max(1, d.Microseconds()), longest.Microseconds())
	_ = t.counts.RecordValue(us) // it is within range
}

func (t Times) MarshalJSON() ([]byte, error) {
	if t.counts == nil {
		return []byte("null"), nil
	}
	data, err := t.counts.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return nil, err
	}
	return json.Marshal(data)
}

func (t *Times) UnmarshalJSON(text []byte) error {
	var data []byte
	if err := json.Unmarshal(text, &data); err != nil || data == nil {
		return err
	}
	read, err := hdrhistogram.Decode(data)
	if err != nil {
		return fmt.Errorf("read times: %w", err)
	}
	t.counts = read
	return nil
}

// Keys count distinct keys, with an error of 3 %. The zero Keys are none. Keys of several nodes can be merged.
type Keys struct{ sketch *hyperloglog.Sketch }

// precision of the sketches of distinct keys: 1 KiB, with an error of 3 %.
const precision = 10

func newSketch() *hyperloglog.Sketch {
	sketch, err := hyperloglog.NewSketch(precision, false)
	if err != nil {
		panic(err) // the precision is a constant
	}
	return sketch
}

// Count estimates how many different keys there are.
func (k Keys) Count() int64 {
	if k.sketch == nil {
		return 0
	}
	return int64(k.sketch.Estimate())
}

func (k *Keys) insert(hash uint64) {
	if k.sketch == nil {
		k.sketch = newSketch()
	}
	k.sketch.InsertHash(hash)
}

// merge ignores keys of another precision, as another version may have.
func (k *Keys) merge(other Keys) {
	if other.sketch == nil {
		return
	}
	if k.sketch == nil {
		k.sketch = newSketch()
	}
	_ = k.sketch.Merge(other.sketch)
}

func (k Keys) MarshalJSON() ([]byte, error) {
	if k.sketch == nil {
		return []byte("null"), nil
	}
	data, err := k.sketch.MarshalBinary()
	if err != nil {
		return nil, err
	}
	return json.Marshal(data)
}

func (k *Keys) UnmarshalJSON(text []byte) error {
	var data []byte
	if err := json.Unmarshal(text, &data); err != nil || len(data) == 0 {
		return err
	}
	read := newSketch()
	if err := read.UnmarshalBinary(data); err != nil {
		return fmt.Errorf("read distinct keys: %w", err)
	}
	k.sketch = read
	return nil
}
