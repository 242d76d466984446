package reqbody

import "net/http"

// Handler bounds the bodies of the requests to a handler.
func Handler(next http.Handler, o Options) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Body == nil || req.Body == http.NoBody {
			next.ServeHTTP(w, req)
			return
		}
		b := new(Body)
		b.Start(w, req, o)
		defer b.End()
		own := req.WithContext(req.Context()) // net/http checks the body of its own request
		own.Body = b
		next.ServeHTTP(&writer{w, b}, own)
	})
}

// A writer tells a body when the response begins.
type writer struct {
	http.ResponseWriter
	body *Body
}

func (w *writer) WriteHeader(status int) {
	if status >= http.StatusOK {
		w.body.Respond(w.Header())
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) Write(p []byte) (int, error) {
	w.body.Respond(w.Header())
	return w.ResponseWriter.Write(p)
}

func (w *writer) FlushError() error {
	w.body.Respond(w.Header())
	return http.NewResponseController(w.ResponseWriter).Flush()
}

func (w *writer) Flush() { w.FlushError() }

func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
