package admin

import (
	"errors"
	"time"

	"github.com/penstock-io/penstock"
	"github.com/penstock-io/penstock/internal/accesslog"
	"github.com/penstock-io/penstock/internal/backtest"
	"github.com/penstock-io/penstock/internal/suggest"
	"github.com/penstock-io/penstock/rules"
)

// backtest replays requests through the current rules, and through a document if one is given.
func (a *Admin) backtest(t *toolRun) (any, error) {
	var asked struct {
		logInput
		Document *string `json:"document"`
	}
	log, err := t.readTool(&asked, &asked.logInput)
	if err != nil {
		return nil, err
	}
	t.start()
	documents := []backtest.Document{{Name: "current rules", Rules: a.Rules.Live.Load()}}
	if asked.Document != nil {
		text, err := t.required(asked.Document)
		if err != nil {
			return nil, err
		}
		edited, _, err := rules.CompileContext(t.ctx, fileOf(text), a.Rules.Compile)
		if err != nil {
			return nil, err
		}
		documents = append(documents, backtest.Document{Name: "edited rules", Rules: edited})
	}
	t.share(len(documents))
	result, err := t.backtest(documents, log)
	if err != nil {
		return t.report(nil, err, "penstock backtest")
	}
	page := result.Page()
	log.describe(page)
	t.showNames(log)
	return t.report(page, nil, "penstock backtest")
}

func (t *toolRun) backtest(documents []backtest.Document, from *requestLog) (*backtest.Report, error) {
	var wanted []accesslog.Attribute
	for _, d := range documents {
		wanted = append(wanted, backtest.Attributes(d.Rules, from.input.Domain)...)
	}
	log, err := from.open(wanted)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	report, err := backtest.Run(t.ctx, log, backtest.Options{
		Documents: documents, Domain: from.input.Domain, Entitlements: t.admin.Entitlements,
		NewStore: t.newReplayStore, EndsAtOnce: from.recent, Progress: func(int64) { t.rest() },
	})
	if err == nil && from.recent {
		report.Recorded = nil // these requests found counters that others had used
	}
	return report, err
}

// showNames records that the client is shown the names of recent clients. One who sends a log knows them already.
func (x *apiRequest) showNames(log *requestLog) {
	if log.recent && log.kept > 0 {
		x.named = true
		x.admin.reveals.note(x)
	}
}

// suggest finds the smallest limit that denies no more requests or keys than allowed.
func (a *Admin) suggest(t *toolRun) (any, error) {
	asked := struct {
		logInput
		Key       []string           `json:"key"`
		Path      string             `json:"path"`
		Method    string             `json:"method"`
		Algorithm penstock.Algorithm `json:"algorithm"`
		Window    float64            `json:"window_ms"`
		Burst     float64            `json:"burst"`
		MaxDenied *float64           `json:"max_denied"`
		MaxKeys   *float64           `json:"max_keys"`
		HoldOut   float64            `json:"hold_out"`
	}{Algorithm: penstock.SlidingWindowCounter, Window: 60_000, Burst: 1, HoldOut: 0.2}
	log, err := t.readTool(&asked, &asked.logInput)
	if err != nil {
		return nil, err
	}
	t.start()
	result, err := suggest.Find(t.ctx, suggest.Options{
		Key: asked.Key, Path: asked.Path, Method: asked.Method, Algorithm: asked.Algorithm, Window: durationOf(asked.Window),
		Burst: asked.Burst, MaxDenied: shareOf(asked.MaxDenied), MaxKeys: shareOf(asked.MaxKeys), HoldOut: asked.HoldOut,
		Open: log.open, NewStore: t.newReplayStore,
		Progress: func(int, *accesslog.Log, int64) { t.rest() },
	})
	if errors.Is(err, suggest.ErrNoRequests) && log.recent && log.kept == 0 {
		return nil, invalid("the nodes have not kept any requests yet: send some, or use an access log")
	}
	if err != nil {
		return t.report(nil, err, "penstock suggest")
	}
	page := result.Page()
	log.describe(page)
	return t.report(page, nil, "penstock suggest")
}

// shareOf returns a target; negative if there is none.
func shareOf(share *float64) float64 {
	if share == nil {
		return -1
	}
	return max(0, *share)
}

// durationOf returns a duration. One that is too long or not a number is out of every bound.
func durationOf(ms float64) time.Duration {
	if !(ms >= 0 && ms < 1e15) {
		return -1
	}
	return time.Duration(ms * float64(time.Millisecond))
}
