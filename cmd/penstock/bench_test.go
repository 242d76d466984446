package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/penstock-io/penstock/internal/loadgen"
	"github.com/penstock-io/penstock/internal/redistest"
)

// Load on the real program, over every API: each of five clients gets its ten, and the limit is learned if the
// API reports it.
func TestBench(t *testing.T) {
	t.Parallel()
	p := startProcess(t, onFreePorts...)
	redis := redistest.Start(t)
	const exact = "--algorithm sliding_window_log --limit 10 --window 1h"
	for _, args := range []string{
		"http http://" + p.addresses["http"] + " --key fingerprint --attribute path=/api/v1/chat",
		"grpc " + p.addresses["grpc"] + " --key fingerprint --attribute path=/api/v1/chat --rate 500",
		"rls " + p.addresses["grpc"] + " --key fingerprint --attribute path=/api/v1/chat --algorithm sliding_window_log --limit 10",
		"gateway http://" + p.addresses["gateway"] + "/api/v1/chat --header X-Fingerprint --algorithm sliding_window_log --limit 10",
		"redis " + redis.Addr + " " + exact,
		"memory " + exact,
	} {
		var out, errs bytes.Buffer
		a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs}
		code := a.run(t.Context(), append(strings.Fields("bench -o json --requests 300 --workers 16 --keys 5 --timeout 30s"), strings.Fields(args)...))
		var r loadgen.Result
		if err := json.Unmarshal(out.Bytes(), &r); err != nil || code != exitYes {
			t.Errorf("bench %s: exit status %d, %v\n%s%s", args, code, err, &out, &errs)
			continue
		}
		// Under a minute's log, more than ten each pass only if the run takes longer than a minute.
		if r.Requests != 300 || r.Failed != 0 || r.Allowed < 50 || r.Took.Minutes() < 1 && r.Allowed != 50 {
			t.Errorf("bench %s: %+v", args, r)
		}
		if r.Over.Limit == nil || r.Over.Keys != 0 || r.Over.Checked != r.Allowed {
			t.Errorf("bench %s: %v", args, &r.Over)
		}
		if isLocal := !strings.HasPrefix(args, "memory"); isLocal != strings.Contains(errs.String(), "is on this machine") {
			t.Errorf("bench %s: %s", args, &errs)
		}
	}
}

// The command detects a deployment that allows more than the limit the user names.
func TestBenchFindsOverAdmission(t *testing.T) {
	t.Parallel()
	p := startProcess(t, onFreePorts...)
	var out, errs bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &errs}
	args := "bench gateway http://" + p.addresses["gateway"] + "/api/v1/chat --header X-Fingerprint --algorithm sliding_window_log --limit 9 --window 1h --requests 100 --keys 2 --timeout 30s"
	if code := a.run(t.Context(), strings.Fields(args)); code != exitNo || !strings.Contains(out.String(), "OVER-ADMISSION: 2 keys were admitted more than 9 in a window of 1h0m0s") {
		t.Errorf("exit status %d\n%s%s", code, &out, &errs)
	}
}
