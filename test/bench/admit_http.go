package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/admission"
	"github.com/edictdev/edict/policy"
)

const (
	admitConnections = 8
	admitRequests    = 20_000
)

// admitHTTP asks a server in a process of its own, and counts that process's
// CPU alone. The floor is the chain in this process, without HTTP.
func admitHTTP(ctx context.Context, e *env) (lines []line, err error) {
	s, err := serveAdmission(ctx, e, admitFew)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	chain, err := chainInProcess(ctx)
	if err != nil {
		return nil, err
	}
	n := e.scale(admitRequests)
	var perCore, perSecond, bare, p50, p99 samples
	for range e.rounds() {
		used := cpuSeconds()
		for range n / 4 {
			if err := chain(); err != nil {
				return nil, err
			}
		}
		bare = append(bare, float64(n/4)/(cpuSeconds()-used))
		a, err := s.ask(ctx, n, matching)
		if err != nil {
			return nil, err
		}
		perCore, perSecond = append(perCore, float64(n)/a.cpu), append(perSecond, float64(n)/a.took.Seconds())
		p50, p99 = append(p50, a.latencies.at(0.5)), append(p99, a.latencies.at(0.99))
		say("  %s requests/s a core of server CPU, %s requests/s", short(perCore[len(perCore)-1]), short(perSecond[len(perSecond)-1]))
	}
	l := figure(fmt.Sprintf("3 matching of %d over HTTP, %d connections", admitFew, admitConnections), "requests/s a core of server CPU", perCore).
		beside("the chain in process, a core", bare).atLeast(8000).ratioAtLeast(0.8)
	return []line{
		*l.note("%s requests/s with who asks on the same machine", short(perSecond.median())),
		*figure(fmt.Sprintf("p99 of a request, %d connections, each asks as soon as it is answered", admitConnections), "ms", p99).
			beside("their p50", p50).ratioAtMost(3),
	}, nil
}

// chainInProcess is a request through the chain, without HTTP.
func chainInProcess(ctx context.Context) (func() error, error) {
	payload, err := admission.ParsePayload([]byte(admitPayload))
	if err != nil {
		return nil, err
	}
	snapshot, err := admitPolicies(ctx, admitFew)
	if err != nil {
		return nil, err
	}
	engine := admission.NewEngine(admission.EngineOptions{})
	request := admission.Request{ServiceType: "vm", Labels: admission.LabelsOf(payload), Payload: payload}
	return func() error {
		r, err := engine.Evaluate(ctx, snapshot, request, admission.Options{})
		if err != nil || r.Status != admission.Modified {
			return fmt.Errorf("the chain in process did not do what it is there for: %w", err)
		}
		return nil
	}, nil
}

// serveAdmission is a plane with so many policies, of which admitCodes match.
func serveAdmission(ctx context.Context, e *env, registered int, more ...admission.Policy) (*served, error) {
	s, err := serveEdict(ctx, e)
	if err != nil {
		return nil, err
	}
	policies := more
	for i := range registered {
		policies = append(policies, admitPolicy(i))
	}
	events := make([]policy.Event, len(policies))
	for i, p := range policies {
		events[i] = policy.AdmissionPolicyUpdated{
			ID: uuid.New(), Policy: policy.AdmissionPolicyID(p.ID), Expected: new(uint64), CreatedBy: "bench",
			Document: policy.AdmissionPolicy{
				Name: p.Name, Level: policy.Level(p.Level.String()), ServiceType: p.ServiceType, Priority: int32(p.Priority), Mode: policy.Enforce, Rego: p.Rego,
			},
		}
	}
	if err := s.publish(ctx, events); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if err := s.registered(ctx, len(events)); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// registered waits until the process has the policies.
func (s *served) registered(ctx context.Context, n int) error {
	c, err := client.New("http://"+s.addr, client.Options{})
	if err != nil {
		return err
	}
	for {
		have := 0
		for _, err := range c.Admission.All(ctx, nil) {
			if err != nil {
				return err
			}
			have++
		}
		if have == n {
			return nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// asked is what became of a number of requests.
type asked struct {
	cpu       float64 // seconds of the server's
	took      time.Duration
	latencies samples // ms
}

// question is what is asked, and whether an answer is the right one.
type question struct {
	path, body string
	right      func(resource.Admitted) bool
}

var matching = question{evaluatePath, `{"request_payload":` + admitPayload + `}`, func(got resource.Admitted) bool {
	return got.Status == string(admission.Modified) && got.ServiceProvider.Value == "aws" && bytes.Contains(got.RequestPayload, []byte(`"memory":8`))
}}

const evaluatePath = "/api/v1/engine/evaluate"

// ask sends n requests, each as soon as the one before it on its connection is
// answered, and looks at every answer.
func (c *child) ask(ctx context.Context, n int, q question) (a asked, err error) {
	before, err := c.cpuSeconds()
	if err != nil {
		return a, err
	}
	began := time.Now()
	each := make([]samples, admitConnections)
	g, ctx := errgroup.WithContext(ctx)
	for i := range admitConnections {
		g.Go(func() error {
			t := &http.Transport{MaxConnsPerHost: 1, DisableCompression: true}
			defer t.CloseIdleConnections()
			for range n / admitConnections {
				sent := time.Now()
				if err := q.once(ctx, t, c.url("")); err != nil {
					return err
				}
				each[i] = append(each[i], float64(time.Since(sent).Microseconds())/1e3)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return a, err
	}
	a.took, a.latencies = time.Since(began), slices.Concat(each...)
	after, err := c.cpuSeconds()
	a.cpu = after - before
	return a, err
}

// once asks, and wants the right answer.
func (q question) once(ctx context.Context, t *http.Transport, url string) error {
	status, text, err := q.send(ctx, t, url)
	if err != nil {
		return err
	}
	var got resource.Admitted
	if err := json.Unmarshal(text, &got); err != nil || !q.right(got) {
		return fmt.Errorf("%d: %.300s", status, text)
	}
	return nil
}

func (q question) send(ctx context.Context, t *http.Transport, url string) (status int, text []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+q.path, strings.NewReader(q.body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := t.RoundTrip(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	text, err = io.ReadAll(resp.Body)
	return resp.StatusCode, text, err
}
