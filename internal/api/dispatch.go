package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/fault"
	"github.com/edictdev/edict/internal/wire"
)

// Headers of requests and answers.
const (
	HeaderCorrelation = "X-Correlation-Id"
	// HeaderPrincipal names who writes, until access is configured: the plane
	// listens on loopback alone then, and whoever reaches it is trusted with the
	// name. Afterwards it says nothing.
	HeaderPrincipal   = "X-Edict-Principal"
	HeaderIdempotency = "Idempotency-Key"
	HeaderEventID     = "Edict-Event-Id"
	HeaderLogSeq      = wire.HeaderLogSeq
	HeaderTraceparent = "traceparent"
)

// dispatcher finds the route of a request, and answers with a problem when
// there is none.
type dispatcher struct {
	pipeline *pipeline
	mux      *http.ServeMux
	// elsewhere serves, at another address, the routes that are not here.
	elsewhere *dispatcher
	there     string // where that is, and the flag that says so
}

// pipeline is what every request passes through, whatever its route.
type pipeline struct {
	auth    *authorizer
	reads   *reads
	tracing *tracing
	metrics *Metrics
	log     *slog.Logger
}

// endpoint is a route in its pipeline.
type endpoint struct {
	*pipeline
	surface surface
	route   Route
}

// newDispatcher serves those routes of the surfaces that are wanted.
func newDispatcher(p *pipeline, all []surface, wanted func(Route) bool) *dispatcher {
	d := &dispatcher{pipeline: p, mux: http.NewServeMux()}
	for _, s := range all {
		for _, r := range s.routes {
			if wanted(r) {
				d.mux.Handle(r.Method+" "+r.Pattern, &endpoint{p, s, r})
				p.metrics.awaited(&r)
			}
		}
	}
	return d
}

func (d *dispatcher) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if d.has(r) {
		d.mux.ServeHTTP(w, r) // again, for the path's values
		return
	}
	h, _ := d.mux.Handler(r)
	// The mux would answer 404, 405 or a redirect to a cleaner path; it tells
	// which to a writer that keeps headers alone.
	probe := &answerRecorder{header: http.Header{}}
	h.ServeHTTP(probe, r)
	none := endpoint{pipeline: d.pipeline, route: Route{Pattern: "none", Needs: access.Anyone, early: true, serve: func(c *call) error {
		if d.elsewhere != nil && d.elsewhere.has(r) {
			return problem(http.StatusNotFound, CodeRouteNotFound, "this route is not at this address: ask at %s", d.there)
		}
		if r.URL.Path == "/" {
			return problem(http.StatusNotFound, CodeRouteNotFound, "nothing is here: the console is at %s, the API below /v1/, and what describes it at /openapi.json", consolePath)
		}
		if probe.status != http.StatusMethodNotAllowed {
			return problem(http.StatusNotFound, CodeRouteNotFound, "there is no such route")
		}
		allow := probe.header.Get("Allow")
		c.w.Header().Set("Allow", allow)
		return problem(http.StatusMethodNotAllowed, CodeMethodNotAllowed, "this route takes %s", allow)
	}}}
	none.ServeHTTP(w, r)
}

// has reports whether a request is for a route that is served here.
func (d *dispatcher) has(r *http.Request) bool {
	h, _ := d.mux.Handler(r)
	_, ok := h.(*endpoint)
	return ok
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{w: &response{ResponseWriter: w}, r: r, route: &e.route}
	began := time.Now()
	done := e.tracing.request(c)
	defer func() { done(c.w.status) }()
	err := e.serve(c)
	left := err != nil && !c.w.wrote() && e.left(c, err)
	if err != nil && !c.w.wrote() && !left {
		e.writeProblem(c, e.surface, err)
	}
	if fault.On && r.Method != http.MethodGet {
		_ = http.NewResponseController(w).Flush() // it is there to be read
		fault.Pass(fault.AcknowledgeAfter)
	}
	if !e.route.streams() || c.w.status != http.StatusOK { // what was refused is answered like any other
		e.metrics.answered(&e.route, c.w.status, time.Since(began))
	}
	if left {
		panic(http.ErrAbortHandler) // or net/http answers that all is well
	}
}

// statusLeft is what a request counts as whose client left before it was answered.
// Nobody is sent it.
const statusLeft = 499

// left reports whether an error has no reader any more: the client has gone, or
// the server stops and nothing else is wrong. The request counts as such. What is
// wrong with the request itself is its answer all the same.
func (p *pipeline) left(c *call, err error) bool {
	ended := context.Cause(c.r.Context())
	if ended == nil {
		return false
	}
	var pr *resource.Problem
	known := errors.As(err, &pr)
	wrong := !known && !errors.Is(err, ended) && !errors.Is(err, context.Canceled)
	switch {
	case known && pr.Status < http.StatusInternalServerError:
		return false
	case !errors.Is(ended, errStopping):
		if c.w.status = statusLeft; wrong {
			p.atFault(c, err)
		}
	case known || wrong:
		return false
	default:
		c.w.status = http.StatusServiceUnavailable
	}
	return true
}

// serve runs the route, and contains what goes wrong in it.
func (e *endpoint) serve(c *call) (err error) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		if v == http.ErrAbortHandler {
			panic(v)
		}
		err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
	}()
	if err := c.readHeaders(); err != nil {
		return err
	}
	if err := e.auth.authorize(c); err != nil {
		return err
	}
	if err := c.checkParameters(); err != nil {
		return err
	}
	if err := c.route.checkConditions(c.r.Header); err != nil {
		return err
	}
	if err := readDryRun(c); err != nil {
		return err
	}
	if err := e.reads.afterStart(c); err != nil {
		return err
	}
	err = e.route.serve(c)
	if errors.Is(err, errDryRun) {
		c.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return err
}

// response remembers the status that was sent.
type response struct {
	http.ResponseWriter
	status int
}

func (w *response) wrote() bool { return w.status != 0 }

func (w *response) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *response) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }
