package blocks_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-io/penstock/engine/blocklist"
	"github.com/penstock-io/penstock/internal/blocks"
)

// A filledPlace has blocks that somebody else has written, a few more or less at each look.
type filledPlace struct {
	blocks []blocklist.Block
	looks  int
}

func (*filledPlace) String() string { return "place" }

func (p *filledPlace) Read(context.Context) ([]blocklist.Block, error) {
	p.looks++
	return p.blocks[:len(p.blocks)-p.looks%2], nil
}

func (*filledPlace) Write(context.Context, []blocklist.Block, []string) error { return nil }

// Blocks that cannot be enforced are counted in one line for each kind of fault, however often they are read.
func TestFaultsAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full, invalid := new(filledPlace), new(filledPlace)
		for i := range 4100 {
			b := block(fmt.Sprint(i))
			b.ID, b.From, b.Until = fmt.Sprint(i), time.Now(), time.Now().Add(time.Hour)
			full.blocks = append(full.blocks, b)
			b.ID, b.Reason = "invalid"+b.ID, strings.Repeat("x", blocklist.MaxText+1)
			invalid.blocks = append(invalid.blocks, b)
		}
		var log bytes.Buffer
		s := open(t, blocks.Options{Places: []blocks.Place{full, invalid, new(emptyPlace)}, Log: slog.New(slog.NewTextHandler(&log, nil))})
		time.Sleep(time.Minute) // of the bubble
		synctest.Wait()
		s.Close()
		text := log.String()
		if strings.Count(text, "\n") != 2 || !strings.Contains(text, "invalid blocks ignored") || !strings.Contains(text, "too many are known") || len(text) > 2000 {
			t.Errorf("%d bytes: %.1000s", len(text), text)
		}
		if invalid.looks < 100 {
			t.Errorf("only %d looks", invalid.looks)
		}
	})
}

// An emptyPlace has no blocks.
type emptyPlace struct{}

func (*emptyPlace) String() string                                           { return "empty" }
func (*emptyPlace) Read(context.Context) ([]blocklist.Block, error)          { return nil, nil }
func (*emptyPlace) Write(context.Context, []blocklist.Block, []string) error { return nil }
