package api

import (
	"bytes"
	"io"
	"net/http"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/api/openapi"
	"github.com/edictdev/edict/internal/backoff"
)

// Bounds of what takes its time, in seconds.
const (
	profileDefault = 10
	maxProfile     = 60
)

// profiles are what can be asked for: the first two are recorded, the others are what the runtime keeps.
var profiles = []string{"profile", "trace", "heap", "allocs", "goroutine", "block", "mutex", "threadcreate"}

// mediaProfile is what go tool pprof reads, or go tool trace.
const mediaProfile = "application/octet-stream"

// profileHandlers show what the process is busy with, and what its memory holds.
type profileHandlers struct {
	one sync.Mutex // CPU profile or trace at a time
}

func (h *profileHandlers) routes() []Route {
	return []Route{{
		Method: http.MethodGet, Pattern: "/debug/pprof/{profile}", ID: "getProfile", Tag: tagHealth, Needs: access.AdminPlane, early: true,
		Summary: "Profile the process, for go tool pprof, or trace it, for go tool trace",
		Params: []Param{{
			Name: "seconds", In: "query", Summary: "How long profile and trace record.",
			Schema: &openapi.Schema{Type: "integer", Minimum: openapi.N(1), Maximum: openapi.N(maxProfile), Default: profileDefault},
		}},
		Answers: []Answer{{Status: http.StatusOK, MediaType: mediaProfile}}, Problems: []string{CodeRouteNotFound, CodeTooManyAtOnce},
		serve: h.get,
	}}
}

func (h *profileHandlers) get(c *call) error {
	seconds := profileDefault
	if text := c.r.URL.Query().Get("seconds"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxProfile {
			return broken(http.StatusBadRequest, CodeBadParameter, "/seconds", "want 1 to 60")
		}
		seconds = n
	}
	name := c.r.PathValue("profile")
	switch name {
	case "profile":
		return h.record(c, seconds, pprof.StartCPUProfile, pprof.StopCPUProfile)
	case "trace":
		return h.record(c, seconds, trace.Start, trace.Stop)
	}
	p := pprof.Lookup(name)
	if p == nil {
		return problem(http.StatusNotFound, CodeRouteNotFound, "there is no profile %.40q; there are %s", name, strings.Join(profiles, ", "))
	}
	if name == "heap" { // else it is what was held when garbage was last collected
		runtime.GC()
	}
	var out bytes.Buffer
	if err := p.WriteTo(&out, 0); err != nil {
		return err
	}
	c.bytes(http.StatusOK, mediaProfile, out.Bytes())
	return nil
}

// record goes on until the time is up or the client leaves.
func (h *profileHandlers) record(c *call, seconds int, start func(io.Writer) error, stop func()) error {
	if !h.one.TryLock() {
		return problem(http.StatusServiceUnavailable, CodeTooManyAtOnce, "another CPU profile or trace is under way; try again when it has ended")
	}
	defer h.one.Unlock()
	var out bytes.Buffer
	if err := start(&out); err != nil {
		return err
	}
	_ = backoff.Sleep(c.r.Context(), time.Duration(seconds)*time.Second)
	stop()
	c.bytes(http.StatusOK, mediaProfile, out.Bytes())
	return nil
}
