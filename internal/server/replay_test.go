package server

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/accesslog"
	"github.com/penstock-io/penstock/internal/backtest"
	"github.com/penstock-io/penstock/internal/simulator/replay"
	"github.com/penstock-io/penstock/memstore"
	"github.com/penstock-io/penstock/rules"
)

const replayedRules = `
attributes: {user: {header: X-User}}
rules:
  - {name: counter, match: {path: /a}, key: [ip, user], limits: [7/1m]}
  - {name: log, key: [user], limits: [{rate: 20/1s, algorithm: sliding_window_log}]}
  - {name: bucket, match: {method: POST}, key: [user], limits: [{rate: 5/s, burst: 3, algorithm: token_bucket}]}
  - {name: banned, match: {path: /b}, key: [user], limits: [5/1s], penalty: {after: 3, within: 1m, bans: [1s]}}
  - {name: tried, key: [], limits: [10/1m], mode: shadow}
`

// A backtest of the gateway's replay log makes the same decisions, request by request.
func TestReplayLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, file := filepath.Join(dir, "replay.jsonl"), filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(file, []byte(replayedRules), 0o600); err != nil {
		t.Fatal(err)
	}
	n := startNode(t, fmt.Sprintf("rules: {file: %q}\nlog: {replay: %q}\n", file, path))
	denied := 0
	const requests = 300
	for i := range requests {
		method, target := http.MethodGet, []string{"/a", "/b", "/c?x=1"}[i%3]
		if i%5 == 0 {
			method = http.MethodPost
		}
		answer, _ := n.send(method, n.url("gateway", target), "", "X-User", fmt.Sprint("u", i%2))
		if answer.StatusCode == http.StatusTooManyRequests {
			denied++
		}
	}
	n.stop()
	if err := <-n.done; err != nil {
		t.Error(err)
	}
	n.Close()

	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	snapshot, _, err := rules.CompileFiles([]rules.File{{Data: []byte(replayedRules)}}, rules.Options{})
	if err != nil {
		t.Fatal(err)
	}
	log, err := accesslog.Open([]string{path}, accesslog.Options{Attributes: backtest.Attributes(snapshot, "")})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	report, err := backtest.Run(t.Context(), log, backtest.Options{
		Documents: []backtest.Document{{Rules: snapshot}},
		NewStore:  func() (replay.Store, error) { return memstore.New(memstore.Options{}) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if r := report.Recorded; r == nil || r.Same != requests || r.Differs != 0 || r.Inexact != 0 {
		t.Errorf("%+v", r)
	}
	if report.Documents[0].Denied != int64(denied) || denied == 0 || denied == requests || strings.Join(report.Log.Formats, "") != "replay" {
		t.Errorf("the backtest denies %d, the gateway denied %d; %v", report.Documents[0].Denied, denied, report.Log.Formats)
	}
}
