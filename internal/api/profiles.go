package api

import (
	"bytes"
	"net/http"
	"runtime/pprof"
	"strconv"
	"sync"
	"time"

	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/api/openapi"
)

// Bounds of a CPU profile, in seconds.
const (
	profileDefault = 10
	maxProfile     = 60
)

// mediaProfile is what go tool pprof reads.
const mediaProfile = "application/octet-stream"

// profileHandlers show what the process is busy with, and what its memory holds.
type profileHandlers struct {
	one sync.Mutex // CPU profile at a time
}

func (h *profileHandlers) routes() []Route {
	return []Route{{
		Method: http.MethodGet, Pattern: "/debug/pprof/{profile}", ID: "getProfile", Tag: tagHealth, Needs: access.AdminPlane, early: true,
		Summary: "Profile the process, for go tool pprof",
		Params: []Param{{
			Name: "seconds", In: "query", Summary: "How long its CPU is profiled.",
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
	if name == "profile" {
		return h.cpu(c, seconds)
	}
	p := pprof.Lookup(name)
	if p == nil {
		return problem(http.StatusNotFound, CodeRouteNotFound, "there is no profile %.40q; there are profile, heap, allocs, goroutine, block, mutex and threadcreate", name)
	}
	var out bytes.Buffer
	if err := p.WriteTo(&out, 0); err != nil {
		return err
	}
	c.bytes(http.StatusOK, mediaProfile, out.Bytes())
	return nil
}

// cpu profiles until the time is up or the client leaves.
func (h *profileHandlers) cpu(c *call, seconds int) error {
	if !h.one.TryLock() {
		return problem(http.StatusServiceUnavailable, CodeTooManyAtOnce, "another CPU profile is under way; try again when it has ended")
	}
	defer h.one.Unlock()
	var out bytes.Buffer
	if err := pprof.StartCPUProfile(&out); err != nil {
		return err
	}
	select {
	case <-c.r.Context().Done():
	case <-time.After(time.Duration(seconds) * time.Second):
	}
	pprof.StopCPUProfile()
	c.bytes(http.StatusOK, mediaProfile, out.Bytes())
	return nil
}
