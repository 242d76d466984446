package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/penstock-io/penstock/internal/ruledb"
	"github.com/penstock-io/penstock/internal/webguard"
)

// Bounds of request bodies.
const (
	maxBody        = 256 << 10 // fits the largest request description
	viewerDocument = 4 << 20   // largest document that viewers may have compiled
)

// An apiRequest is one request to the API and its response.
type apiRequest struct {
	w     http.ResponseWriter
	r     *http.Request
	who   principal
	admin *Admin
	named bool // naming clients: already recorded in the audit log
}

// exchange returns the handler of a route, which checks the role first.
func (a *Admin) exchange(to route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, refused := a.access.admit(r, &to)
		if refused != nil {
			a.Log.Debug("refused", "path", r.URL.Path, "from", a.veil.value("ip", who.address.String()), "code", refused.Code)
			fail(w, refused)
			return
		}
		x := &apiRequest{w: w, r: r, who: who, admin: a}
		answer, err := to.serve(x)
		if err != nil {
			p := problemOf(err)
			if p.Code == Internal {
				a.Log.Error("the admin API failed", "method", r.Method, "path", r.URL.Path, "error", err)
			}
			fail(w, p)
			return
		}
		if _, done := answer.(responseWritten); !done {
			reply(w, x.forClient(answer))
		}
	})
}

// forClient returns a response, or an event of a stream, as the client may see it: for viewers, values are masked by
// the veil. For others, it records that they were shown the names of clients.
func (x *apiRequest) forClient(answer any) any {
	if x.who.role < Operator {
		return x.admin.veil.mask(answer)
	}
	if !x.named && namesSomebody(answer) {
		x.named = true
		x.admin.reveals.note(x)
	}
	return answer
}

// each returns what f makes of every element. The result is not nil, so that it is not null in JSON.
func each[T, U any](all []T, f func(*T) U) []U {
	made := make([]U, len(all))
	for i := range all {
		made[i] = f(&all[i])
	}
	return made
}

func reply(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(answer) // a client that has gone away needs no error
}

// read decodes the body of the request, a JSON object, into a struct. Unknown and duplicate fields are errors. It
// reports all errors at once.
func (x *apiRequest) read(into any) error { return x.readUpTo(maxBody, into) }

// readDocument is read for bodies that contain rules. It allows for line ends, which take two bytes when escaped.
func (x *apiRequest) readDocument(into any) error { return x.readUpTo(2*int64(x.maxDocument()), into) }

// maxDocument is how many bytes of rules the client may send.
func (x *apiRequest) maxDocument() int {
	if x.who.role < Operator {
		return viewerDocument
	}
	return ruledb.MaxDocument
}

// inTurn returns the function of a route that waits for a turn to do expensive work. It reads the body only then, so
// that waiting requests take no memory.
func inTurn(serve func(*apiRequest) (any, error)) func(*apiRequest) (any, error) {
	return func(x *apiRequest) (any, error) {
		end, err := x.begin()
		if err != nil {
			return nil, err
		}
		defer end()
		return serve(x)
	}
}

// begin waits for a turn to do expensive work. The caller must call end.
func (x *apiRequest) begin() (end func(), err error) {
	return x.admin.turns.begin(x.r.Context(), x.who.role)
}

func (x *apiRequest) readUpTo(most int64, into any) error {
	if err := webguard.CheckJSON(x.r.Header); err != nil {
		x.w.Header().Set("Accept-Post", "application/json")
		return refuse(http.StatusUnsupportedMediaType, Invalid, err.Error())
	}
	body, err := io.ReadAll(http.MaxBytesReader(x.w, x.r.Body, most))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return refuse(http.StatusRequestEntityTooLarge, Invalid, fmt.Sprintf("the body has more than %d bytes", most))
	}
	if err != nil {
		return invalid("the body ended early")
	}
	return parse(body, into)
}

// takes returns the function of a route whose requests have a body: a JSON object, which is read into a T.
func takes[T any](serve func(*apiRequest, *T) (any, error)) func(*apiRequest) (any, error) {
	return func(x *apiRequest) (any, error) {
		asked := new(T)
		if err := x.read(asked); err != nil {
			return nil, err
		}
		return serve(x, asked)
	}
}
