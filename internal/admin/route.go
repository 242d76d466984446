package admin

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/penstock-io/penstock/docs"
)

// A route is one operation of the OpenAPI document. Its function returns the response, as JSON, or an error.
type route struct {
	method, path string
	role         Role
	serve        func(*apiRequest) (any, error)
}

// responseWritten is returned by functions that have already written the response.
type responseWritten struct{}

// routes returns all routes. Each names its role, so that none is open by oversight. Routes that answer a freely
// chosen question from recorded requests, as a preview does, are for operators only: a viewer could use them to guess
// who the clients are. So are tools that hold much memory.
func (a *Admin) routes() []route {
	all := []route{
		{"GET", "/healthz", Anybody, a.healthy},
		{"GET", "/readyz", Anybody, a.ready},
		{"GET", "/metrics", Viewer, a.metrics},
		{"GET", "/openapi.json", Anybody, openAPI},

		{"POST", "/v1/session", Anybody, takes(a.login)},
		{"GET", "/v1/session", Viewer, a.session},
		{"DELETE", "/v1/session", Viewer, a.logout},
		{"POST", "/v1/session/password", Viewer, takes(a.changeOwnPassword)},

		{"GET", "/v1/users", Administrator, a.listUsers},
		{"POST", "/v1/users", Administrator, takes(a.addUser)},
		{"PUT", "/v1/users/{name}", Administrator, takes(a.changeUser)},
		{"PUT", "/v1/users/{name}/password", Administrator, takes(a.setPassword)},
		{"DELETE", "/v1/users/{name}", Administrator, takes(a.removeUser)},
		{"GET", "/v1/tokens", Viewer, a.listTokens},
		{"POST", "/v1/tokens", Viewer, takes(a.createToken)},
		{"DELETE", "/v1/tokens/{id}", Viewer, a.revokeToken},

		{"GET", "/v1/status", Viewer, a.status},
		{"GET", "/v1/nodes", Viewer, a.nodes},
		{"GET", "/v1/stats", Viewer, a.stats},
		{"GET", "/v1/history", Viewer, a.history},
		{"GET", "/v1/annotations", Viewer, a.listAnnotations},
		{"POST", "/v1/annotations", Operator, takes(a.annotate)},
		{"DELETE", "/v1/annotations/{id}", Operator, a.deleteAnnotation},
		{"GET", "/v1/attention", Viewer, a.attention},
		{"GET", "/v1/overview", Viewer, a.overview},
		{"GET", "/v1/events", Viewer, a.follow},
		{"GET", "/v1/events/recent", Viewer, a.recent},

		{"GET", "/v1/rules", Viewer, a.readRules},
		{"PUT", "/v1/rules", Operator, a.saveRules},
		{"POST", "/v1/rules/validate", Viewer, inTurn(a.validateRules)},
		{"POST", "/v1/rules/diff", Viewer, inTurn(a.diffRules)},
		{"POST", "/v1/rules/preview", Operator, inTurn(a.previewRules)},
		{"POST", "/v1/rules/rollback", Operator, takes(a.rollbackRules)},
		{"GET", "/v1/rules/versions", Viewer, a.versions},
		{"GET", "/v1/rules/versions/{number}", Viewer, a.version},
		{"GET", "/v1/rules/schema", Viewer, schema},
		{"POST", "/v1/rules/{name}/overrides", Operator, takes(a.addOverride)},

		{"POST", "/v1/explain", Viewer, takes(a.explain)},
		{"POST", "/v1/playground", Viewer, inTurn(a.play)},
		{"POST", "/v1/tools/backtest", Operator, asTool(a.backtest)},
		{"POST", "/v1/tools/suggest", Operator, asTool(a.suggest)},
		{"POST", "/v1/tools/simulate", Operator, asTool(a.simulate)},
		{"POST", "/v1/tools/plan", Viewer, inTurn(a.plan)},
		{"GET", "/v1/keys", Viewer, a.listKeys},
		{"POST", "/v1/keys/show", Operator, takes(a.showKey)},
		{"POST", "/v1/keys/reset", Operator, takes(a.resetKey)},
		{"POST", "/v1/keys/find", Operator, takes(a.findKey)},
		{"GET", "/v1/attributes", Viewer, a.listAttributes},
		{"GET", "/v1/blocks", Operator, a.listBlocks},
		{"POST", "/v1/blocks", Operator, takes(a.addBlock)},
		{"DELETE", "/v1/blocks", Operator, takes(a.liftBlock)},
		{"GET", "/v1/bans", Operator, a.listBans},
		{"POST", "/v1/bans", Operator, takes(a.ban)},
		{"DELETE", "/v1/bans", Operator, takes(a.lift)},
		{"POST", "/v1/bans/lift", Operator, takes(a.liftBans)},

		{"GET", "/v1/entitlements", Operator, a.listEntitlements},
		{"POST", "/v1/entitlements", Operator, a.changeEntitlements},
		{"POST", "/v1/entitlements/show", Operator, takes(a.showTenant)},

		{"GET", "/v1/audit", Viewer, a.audit},
		{"GET", "/v1/profiles/{name}", Operator, a.profile},
	}
	if a.Demo != nil {
		all = append(all, route{"GET", "/v1/demo", Viewer, a.showDemo}, route{"PUT", "/v1/demo", Operator, takes(a.turnDemo)})
	}
	return all
}

func (a *Admin) mux() *http.ServeMux {
	mux := http.NewServeMux()
	for _, r := range a.routes() {
		mux.Handle(r.method+" "+r.path, a.exchange(r))
	}
	mux.Handle("/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.serveUnrouted(mux, w, r) }))
	return mux
}

// serveUnrouted serves paths without a route: it answers 405 if there is a route for another method, passes the request
// to the console if it can be for it, and else answers 404.
func (a *Admin) serveUnrouted(mux *http.ServeMux, w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE"} {
		other := http.Request{Method: method, URL: r.URL, Host: r.Host}
		if _, pattern := mux.Handler(&other); pattern != "/" {
			allowed = append(allowed, method)
		}
	}
	switch allow := strings.Join(allowed, ", "); {
	case allow != "":
		w.Header().Set("Allow", allow)
		fail(w, refuse(http.StatusMethodNotAllowed, Invalid, fmt.Sprintf("method %.20s is not allowed; use %s", r.Method, allow)))
	case a.Console != nil && (r.Method == http.MethodGet || r.Method == http.MethodHead) && !strings.HasPrefix(r.URL.Path, "/v1/"):
		a.Console.ServeHTTP(w, r)
	default:
		fail(w, refuse(http.StatusNotFound, NotFound, fmt.Sprintf("no such path %.200q; /openapi.json lists all paths", r.URL.Path)))
	}
}

func openAPI(x *apiRequest) (any, error) {
	x.w.Header().Set("Content-Type", "application/json")
	_, _ = x.w.Write(docs.AdminOpenAPI)
	return responseWritten{}, nil
}
