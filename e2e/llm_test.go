package e2e

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/penstock-io/penstock"
)

// llmRules are budgets of tokens per team and per user, together or not at all, and a limit per MCP tool.
const llmRules = `
attributes:
  team: {header: X-Team}
  user: {header: X-User}
  max_tokens: {json: max_tokens}
  rpc: {json: method}
  tool: {json: params.name}
rules:
  - name: team
    match: {method: POST, path: "/v1/{rest...}"}
    key: [team]
    limits: [{rate: 3000/day, algorithm: fixed_window}, {rate: 50_000/month, algorithm: fixed_window}]
    cost: {response_json: usage.total_tokens, estimate: int(max_tokens), default: 50, max: 5000, cut: true}
  - name: user
    match: {method: POST, path: "/v1/{rest...}"}
    key: [team, user]
    limits: [{rate: 2500/day, algorithm: fixed_window}]
    cost: {response_json: usage.total_tokens, estimate: int(max_tokens), default: 50, max: 5000, cut: true}
  - {name: tools, match: {path: /mcp, rpc: tools/call}, key: [team, tool], limits: [{rate: 3/day, algorithm: fixed_window}]}
`

// A model is a fake server of language models. It answers with as many tokens as are asked for.
type model struct{ t *testing.T }

// A modelRequest is what OpenAI and Anthropic understand.
type modelRequest struct {
	Model           string
	Stream          bool
	MaxTokens       int64 `json:"max_tokens"`
	MaxOutputTokens int64 `json:"max_output_tokens"`
	StreamOptions   struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

const promptTokens = 9

func newModel(t *testing.T) *httptest.Server {
	m := model{t}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", m.chat)
	mux.HandleFunc("POST /v1/responses", m.responses)
	mux.HandleFunc("POST /v1/messages", m.messages)
	mux.HandleFunc("POST /mcp", m.mcp)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

// An answer writes events, compressed if the client accepts that.
type modelAnswer struct {
	http.ResponseWriter
	zip *gzip.Writer
	ctx context.Context
}

func (m model) begin(w http.ResponseWriter, req *http.Request, contentType string) *modelAnswer {
	a := &modelAnswer{ResponseWriter: w, ctx: req.Context()}
	w.Header().Set("Content-Type", contentType)
	if strings.Contains(req.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		a.zip = gzip.NewWriter(w)
	}
	return a
}

func (a *modelAnswer) event(name, data string) bool {
	text := "data: " + data + "\n\n"
	if name != "" {
		text = "event: " + name + "\n" + text
	}
	if a.zip != nil {
		fmt.Fprint(a.zip, text)
		a.zip.Flush()
	} else {
		fmt.Fprint(a.ResponseWriter, text)
	}
	return http.NewResponseController(a.ResponseWriter).Flush() == nil && a.ctx.Err() == nil
}

func (a *modelAnswer) end() {
	if a.zip != nil {
		a.zip.Close()
	}
}

// tokens sends the tokens of a stream. The endless model sends some, and waits for its client to leave if it takes no
// more than these.
func (a *modelAnswer) tokens(q *modelRequest, n int64, send func() bool) {
	if q.Model == "endless" {
		n = 100_000
	}
	for range n {
		if !send() {
			return
		}
	}
}

func (m model) read(req *http.Request) (q modelRequest) {
	if err := json.NewDecoder(req.Body).Decode(&q); err != nil {
		m.t.Errorf("the model got a body that is not JSON: %v", err)
	}
	return q
}

func (m model) chat(w http.ResponseWriter, req *http.Request) {
	q := m.read(req)
	usage := fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, promptTokens, q.MaxTokens, promptTokens+q.MaxTokens)
	if !q.Stream {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Once"},"finish_reason":"stop"}],"usage":%s}`, usage)
		return
	}
	a := m.begin(w, req, "text/event-stream")
	defer a.end()
	chunk := `{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"word "}}],"usage":null}`
	a.tokens(&q, q.MaxTokens, func() bool { return a.event("", chunk) })
	if q.StreamOptions.IncludeUsage {
		a.event("", `{"id":"c","object":"chat.completion.chunk","choices":[],"usage":`+usage+`}`)
	}
	a.event("", "[DONE]")
}

func (m model) responses(w http.ResponseWriter, req *http.Request) {
	q := m.read(req)
	a := m.begin(w, req, "text/event-stream")
	defer a.end()
	a.event("response.created", `{"type":"response.created","response":{"id":"r","usage":null}}`)
	a.tokens(&q, q.MaxOutputTokens, func() bool {
		return a.event("response.output_text.delta", `{"type":"response.output_text.delta","delta":"word "}`)
	})
	a.event("response.completed", fmt.Sprintf(`{"type":"response.completed","response":{"id":"r","usage":{"input_tokens":%d,"output_tokens":%d,"total_tokens":%d}}}`,
		promptTokens, q.MaxOutputTokens, promptTokens+q.MaxOutputTokens))
}

func (m model) messages(w http.ResponseWriter, req *http.Request) {
	q := m.read(req)
	if !q.Stream {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"m","type":"message","role":"assistant","content":[{"type":"text","text":"Once"}],"stop_reason":"end_turn","usage":{"input_tokens":%d,"output_tokens":%d}}`, promptTokens, q.MaxTokens)
		return
	}
	a := m.begin(w, req, "text/event-stream")
	defer a.end()
	a.event("message_start", fmt.Sprintf(`{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","content":[],"usage":{"input_tokens":%d,"output_tokens":1}}}`, promptTokens))
	a.event("content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)
	a.tokens(&q, q.MaxTokens, func() bool {
		return a.event("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"word "}}`)
	})
	a.event("content_block_stop", `{"type":"content_block_stop","index":0}`)
	a.event("message_delta", fmt.Sprintf(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":%d}}`, q.MaxTokens))
	a.event("message_stop", `{"type":"message_stop"}`)
}

// mcp answers as an MCP server does over streamable HTTP: calls of tools with events, everything else with JSON.
func (m model) mcp(w http.ResponseWriter, req *http.Request) {
	var q struct {
		ID     json.RawMessage
		Method string
		Params struct {
			Name            string
			ProtocolVersion string
		}
	}
	if err := json.NewDecoder(req.Body).Decode(&q); err != nil {
		m.t.Errorf("the MCP server got a body that is not JSON: %v", err)
	}
	switch q.Method {
	case "initialize":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"fake","version":"1"}}}`, q.ID, q.Params.ProtocolVersion)
	case "tools/call":
		a := m.begin(w, req, "text/event-stream")
		defer a.end()
		a.event("message", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s was called"}]}}`, q.ID, q.Params.Name))
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

// installSDKs installs the SDKs beside the scenarios.
func installSDKs(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"node", "npm"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed", name)
		}
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/llm")); err != nil {
		t.Fatal(err)
	}
	if out, err := inNode(t, dir, "npm", "install", "--no-audit", "--no-fund", "--prefer-offline", "--ignore-scripts", "--loglevel=error", "--fetch-retries=1", "--fetch-timeout=30000"); err != nil {
		t.Skipf("packages cannot be had from npm: %v\n%s", err, out)
	}
	return dir
}

func inNode(t *testing.T, dir string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*patient) // a registry that hangs must not hang the tests
	defer cancel()
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	var complaints strings.Builder
	c.Dir, c.WaitDelay, c.Stderr = dir, patient, &complaints
	out, err := c.Output()
	if err != nil {
		return string(out) + complaints.String(), err
	}
	return string(out), nil
}

// tokensUsed returns how much of a limit was used.
func (n *node) tokensUsed(policy, team, user string) int64 {
	n.t.Helper()
	var v penstock.Verdict
	call := penstock.Call{Attributes: []penstock.Attribute{
		{Name: "method", Value: "POST"}, {Name: "path", Value: "/v1/chat/completions"}, {Name: "team", Value: team}, {Name: "user", Value: user},
	}}
	if err := n.http.Decide(n.t.Context(), &call, &v); err != nil {
		n.t.Fatal(err)
	}
	for _, l := range v.Limits {
		if l.Policy == policy {
			return l.Used
		}
	}
	n.t.Fatalf("no limit %s in %+v", policy, v.Limits)
	return 0
}

// The SDKs of OpenAI, Anthropic and MCP through the gateway, in front of a fake model. Each scenario has a team of its
// own: its budget is 3000 tokens a day, and that of its user 2500.
func TestLanguageModels(t *testing.T) {
	t.Parallel()
	dir := installSDKs(t)
	up := newModel(t)
	n := start(t, "upstreams: [{url: "+up.URL+"}]", rulesFile(t, llmRules))
	out, err := inNode(t, dir, "node", "play.mjs", n.url("gateway", ""))
	var results map[string]json.RawMessage
	if err := errors.Join(err, json.Unmarshal([]byte(out), &results)); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, test := range []struct {
		name        string
		scenario    string
		want        string // a part of the result
		least, most int64  // tokens used of the team's and the user's budgets
	}{
		{"JSON", "openai", `{"tokens":29,"remaining":"\"team:day\";r=2980;t=`, 29, 29},
		{"a stream with usage", "openai-stream", `{"parts":30,"tokens":39}`, 39, 39},
		{"the Responses API", "openai-responses", `{"parts":40}`, 49, 49},
		{"a stream that never reports usage", "openai-no-usage", `{"parts":300}`, 300, 360},
		{"a client that leaves", "openai-left", `{"parts":12}`, 12, 2500},
		{"a stream beyond the budget", "openai-cut", `"error":"APIError","status":null,"message":"The token budget is exhausted`, 2450, 2500},
		// Six streams fit by their estimates of 400, five where some have ended, at 428, before the sixth arrives.
		{"fifty streams at once", "openai-parallel", `"denied":4`, 2000, 2500},
		{"more than the budget", "openai-denied", `{"error":"RateLimitError","status":429`, 0, 0},
		{"Anthropic", "anthropic", `{"tokens":34}`, 34, 34},
		{"an Anthropic stream", "anthropic-stream", `{"parts":35,"tokens":35}`, 44, 44},
		{"an Anthropic stream beyond the budget", "anthropic-cut", `"error":"`, 2450, 2500},
		{"MCP", "mcp", `{"results":["search was called","search was called","search was called","denied","denied","echo was called"]}`, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			result, team := string(results[test.scenario]), "team-"+test.scenario
			if !strings.Contains(result, test.want) {
				t.Errorf("%s, want %s", result, test.want)
			}
			var counted struct{ Parts int64 }
			if err := json.Unmarshal(results[test.scenario], &counted); err != nil || counted.Parts > 2500 {
				t.Errorf("%d parts of a budget of 2500: %v", counted.Parts, err)
			}
			for _, policy := range []string{"team:day", "team:month", "user"} {
				var used int64
				eventually(t, fmt.Sprintf("%s has %d to %d used, with %s", policy, test.least, test.most, result), func() bool {
					used = n.tokensUsed(policy, team, test.scenario)
					return used >= test.least && used <= test.most
				})
				t.Logf("%s: %d used", policy, used)
			}
		})
	}
}
