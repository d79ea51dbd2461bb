package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/convergence"
)

// Fleet is what the API asks of whoever takes samples of all nodes; *convergence.Monitor
// is one.
type Fleet interface {
	History() []convergence.Sample
	Latest(ctx context.Context) (convergence.Sample, error)
	Watch() *convergence.Watch
}

// fleetHandlers serve how many nodes stand where, now and in the last hour.
type fleetHandlers struct {
	fleet Fleet
	auth  *authorizer
}

func (h *fleetHandlers) routes() []Route {
	return []Route{
		{
			Method: http.MethodGet, Pattern: "/v1/fleet/events", ID: "followFleet", Tag: "plane", Needs: access.ReadPlane,
			Summary:  "Follow how many nodes stand where: an event fleet at once, and when a number changes, at most one a second",
			Answers:  []Answer{{Status: http.StatusOK, MediaType: mediaSSE, Body: eitherOf{resource.FleetSample{}}}},
			Problems: []string{CodeStarting}, serve: h.follow,
		},
		{
			Method: http.MethodGet, Pattern: "/v1/fleet/history", ID: "getFleetHistory", Tag: "plane", Needs: access.ReadPlane,
			Summary: "Show how many nodes stood where in the last hour, as this worker saw it",
			Answers: jsonAnswer(http.StatusOK, resource.FleetHistory{}), Problems: []string{CodeStarting}, serve: h.history,
		},
	}
}

func (h *fleetHandlers) history(c *call) error {
	if h.fleet == nil {
		return starting(errNoSamples)
	}
	samples := h.fleet.History()
	out := resource.FleetHistory{EverySeconds: int(convergence.SampleEvery / time.Second), Items: make([]resource.FleetSample, 0, len(samples))}
	for _, s := range samples {
		out.Items = append(out.Items, showSample(s))
	}
	return c.json(http.StatusOK, out)
}

var errNoSamples = errors.New("nobody takes samples of the nodes here")

func (h *fleetHandlers) follow(c *call) error {
	if h.fleet == nil {
		return starting(errNoSamples)
	}
	ctx, cancel := untilStop(c.r.Context())
	defer cancel()
	defer h.auth.follow(c, cancel)()
	w := h.fleet.Watch()
	defer w.Close()
	s := beginSSE(c)
	_ = s.samples(ctx, w) // the client has left
	return nil
}

// samples sends what comes until the client leaves or ctx ends.
func (s *sse) samples(ctx context.Context, w *convergence.Watch) error {
	if err := s.send(":hello\n\n"); err != nil {
		return err
	}
	for ctx.Err() == nil {
		patient, cancel := s.patience(ctx)
		x, err := w.Next(patient)
		cancel()
		if err != nil {
			if err := s.alive(); err != nil {
				return err
			}
			continue
		}
		body, err := json.Marshal(showSample(x))
		if err != nil {
			return err
		}
		if err := s.send(fmt.Sprintf("event: fleet\ndata: %s\n\n", body)); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func showSample(s convergence.Sample) resource.FleetSample {
	return resource.FleetSample{
		Time: s.Time.UTC(), LogSeq: s.Head, AppliedSeq: s.Applied, ByState: showCounts(s.Counts), Streams: s.Streams,
	}
}
