package clients

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// page is where docs show how to add a limit in each framework.
const page = "../docs/how-to/frameworks.md"

// apps are programs around the snippets of the page, by heading. The snippet comes after the first line that is only
// "SNIPPET".
var apps = map[string]struct {
	file, text string
	serve      []string
}{
	"FastAPI, Starlette": {"page_fastapi.py", `
from fastapi import FastAPI
app = FastAPI()
SNIPPET
@app.get("/")
async def answer():
    return "ok"
`, []string{python, "-m", "uvicorn", "--log-level", "warning", "--port", "PORT", "page_fastapi:app"}},
	"Flask": {"page_flask.py", `
from flask import Flask
app = Flask(__name__)
SNIPPET
@app.get("/")
def answer():
    return "ok"
`, []string{python, "-m", "gunicorn", "--workers", "2", "--bind", "127.0.0.1:PORT", "page_flask:app"}},
	"Django": {"page_django.py", `
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import re_path
SNIPPET
settings.configure(ALLOWED_HOSTS=["*"], SECRET_KEY="for tests", ROOT_URLCONF=__name__, MIDDLEWARE=MIDDLEWARE, PENSTOCK=PENSTOCK)
urlpatterns = [re_path("", lambda request: HttpResponse("ok"))]
application = get_wsgi_application()
`, []string{python, "-m", "gunicorn", "--workers", "2", "--bind", "127.0.0.1:PORT", "page_django:application"}},
	"Express": {"page_express.mjs", `
import express from "express";
const app = express();
SNIPPET
app.use((_, response) => response.send("ok"));
app.listen(process.env.PORT, "127.0.0.1");
`, []string{"node", "page_express.mjs"}},
	"Fastify": {"page_fastify.mjs", `
import Fastify from "fastify";
const fastify = Fastify();
SNIPPET
fastify.get("/", async () => "ok");
await fastify.listen({ port: Number(process.env.PORT), host: "127.0.0.1" });
`, []string{"node", "page_fastify.mjs"}},
	"Plain http": {"page_http.mjs", `
const handle = (_, response) => response.end("ok");
SNIPPET
server.listen(process.env.PORT, "127.0.0.1");
`, []string{"node", "page_http.mjs"}},
}

// unhurried gives clients the address of the node and time: a test must not depend on the speed of a machine.
func unhurried(url string) *strings.Replacer {
	return strings.NewReplacer(
		`AsyncClient("http://penstock:8090")`, `AsyncClient("`+url+`", timeout=60, on_error="deny")`,
		`Penstock(app, "http://penstock:8090"`, `Penstock(app, __import__("penstock").Client("`+url+`", timeout=60, on_error="deny")`,
		`"URL": "http://penstock:8090"`, `"URL": "`+url+`", "TIMEOUT": 60, "ON_ERROR": "deny"`,
		`new Client("http://penstock:8090")`, `new Client("`+url+`", { timeoutMs: 60_000, onError: "deny" })`,
	)
}

// testPage runs the snippets of the page for programs with this ending in dir, under the page's rule but with
// another limit.
func testPage(t *testing.T, dir, ending string, env []string) {
	sections, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	rules := lastBlock(t, string(sections), "yaml")
	if !strings.Contains(rules, "100/1m") {
		t.Fatalf("the rule has another limit:\n%s", rules)
	}
	rules = strings.ReplaceAll(rules, "100/1m", "2/1d")
	for heading, app := range apps {
		if !strings.HasSuffix(app.file, ending) {
			continue
		}
		t.Run(heading, func(t *testing.T) {
			t.Parallel()
			_, section, found := strings.Cut(string(sections), "\n## "+heading+"\n")
			if !found {
				t.Fatalf("%s has no heading %q", page, heading)
			}
			section, _, _ = strings.Cut(section, "\n## ")
			snippet := lastBlock(t, section, map[string]string{".py": "python", ".mjs": "js"}[ending])
			url := startNode(t, rules)
			changed := unhurried(url).Replace(snippet)
			if strings.Contains(changed, "penstock:8090") {
				t.Fatalf("the snippet has another form:\n%s", changed)
			}
			text := strings.Replace(app.text, "\nSNIPPET\n", "\n"+changed+"\n", 1)
			if err := os.WriteFile(filepath.Join(dir, app.file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			site := startApp(t, dir, env, append([]string(nil), app.serve...)...)
			for i, want := range []int{200, 200, 429} {
				if got := getAs(t, site+"/", "u"); got != want {
					t.Errorf("request %d: got %d, want %d", i, got, want)
				}
			}
		})
	}
}

// testReporting runs what pages show of the client, under the rule of the page about logins, which allows five
// failures: the page and the README of the package each report one. The program ends with a peek that prints how many
// are left.
func testReporting(t *testing.T, readme, language string, run func(program string) (string, error)) {
	t.Helper()
	page := readPage(t, "../docs/how-to/login-failures.md")
	_, yaml, _ := strings.Cut(page, "```yaml\n")
	yaml, _, _ = strings.Cut(yaml, "```")
	url := startNode(t, yaml)
	frame := map[string]string{
		"python": "from penstock import Call, Client\nclient = Client(URL)\nSNIPPETprint(Client(URL).check({'ip': '198.51.100.7', 'method': 'POST', 'path': '/login'}, cost=0).remaining)\n",
		"js":     "import { Client } from 'penstock';\nconst client = new Client(URL);\nSNIPPETconsole.log((await client.check({ attributes: { ip: '198.51.100.7', method: 'POST', path: '/login' }, cost: 0 })).remaining);\n",
	}[language]
	there := map[string]string{"python": `"` + url + `", timeout=60, on_error="deny"`, "js": `"` + url + `", { timeoutMs: 60_000, onError: "deny" }`}[language]
	for i, text := range []string{page, readPage(t, readme)} {
		program := strings.NewReplacer("URL", there, "SNIPPET", strings.ReplaceAll(lastBlock(t, text, language), `"http://penstock:8090"`, there)).Replace(frame)
		if out, err := run(program); err != nil || !strings.HasSuffix(out, []string{"4\n", "3\n"}[i]) {
			t.Errorf("%v\n%s\n%s", err, program, out)
		}
	}
}

func readPage(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func getAs(t *testing.T, url, user string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-User-ID", user)
	answer, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	return answer.StatusCode
}

// lastBlock returns the last block of code in a language.
func lastBlock(t *testing.T, text, language string) string {
	t.Helper()
	at := strings.LastIndex(text, "```"+language+"\n")
	if at < 0 {
		t.Fatalf("no %s in:\n%s", language, text)
	}
	block, _, _ := strings.Cut(text[at+len(language)+4:], "```")
	return block
}

// What the page shows of other libraries can at least be parsed.
func TestOtherLibraries(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for language, check := range map[string][]string{"python": {python, "-c", "import ast, sys; ast.parse(sys.stdin.read())"}, "js": {"node", "--check", "--input-type=module", "-"}} {
		if _, err := exec.LookPath(check[0]); err != nil {
			t.Logf("%s is not installed", check[0])
			continue
		}
		for i, block := range strings.Split(string(text), "```"+language+"\n")[1:] {
			block, _, _ = strings.Cut(block, "```")
			c := exec.CommandContext(t.Context(), check[0], check[1:]...)
			c.Stdin = strings.NewReader(block)
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("%s block %d: %v\n%s%s", language, i, err, block, out)
			}
		}
	}
}
