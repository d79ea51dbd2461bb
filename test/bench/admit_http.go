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
	"github.com/edictdev/edict/internal/backoff"
	"github.com/edictdev/edict/policy"
)

const (
	admitConnections = 8
	admitRequests    = 20_000
)

// admitHTTP asks a server in a process of its own, and counts that process's
// CPU alone. The floors are the chain in this process, without HTTP, and the chain
// behind a plain HTTP server: the most that any server could do. Each server has a core
// to itself, and those who ask have the others: what they wait for is the server alone.
func admitHTTP(ctx context.Context, e *env) (lines []line, err error) {
	var s *served
	var plain *child
	err = onOneCore(func() (err error) {
		if s, err = serveAdmission(ctx, e, admitFew); err == nil {
			plain, err = plainChainChild(ctx, e)
		}
		return err
	})
	defer func() {
		if s != nil {
			err = errors.Join(err, s.close())
		}
		if plain != nil {
			err = errors.Join(err, plain.stop())
		}
	}()
	if err != nil {
		return nil, err
	}
	chain, err := chainInProcess(ctx)
	if err != nil {
		return nil, err
	}
	n := e.scale(admitRequests)
	var bare samples
	var ours, theirs askedOften
	for range e.rounds() {
		used := cpuSeconds()
		for range n / 4 {
			if err := chain(); err != nil {
				return nil, err
			}
		}
		bare = append(bare, float64(n/4)/(cpuSeconds()-used))
		if err := offThatCore(func() error { return errors.Join(ours.ask(ctx, s.child, n), theirs.ask(ctx, plain, n)) }); err != nil {
			return nil, err
		}
		say("  %s requests/s a core of server CPU, plain server %s", short(last(ours.perCore)), short(last(theirs.perCore)))
	}
	return admitLines(ours, theirs, bare), nil
}

// askedOften is what became of the rounds of one server.
type askedOften struct{ perCore, perSecond, p50, p99 samples }

func (o *askedOften) ask(ctx context.Context, c *child, n int) error {
	a, err := c.ask(ctx, n, matching)
	if err != nil {
		return err
	}
	o.perCore, o.perSecond = append(o.perCore, float64(n)/a.cpu), append(o.perSecond, float64(n)/a.took.Seconds())
	o.p50, o.p99 = append(o.p50, a.latencies.at(0.5)), append(o.p99, a.latencies.at(0.99))
	return nil
}

func admitLines(ours, theirs askedOften, bare samples) []line {
	const perCore = "requests/s a core of server CPU"
	what := fmt.Sprintf("3 matching of %d over HTTP, %d connections", admitFew, admitConnections)
	tail := fmt.Sprintf("p99 of a request, %d connections, each asks as soon as it is answered", admitConnections)
	return []line{
		*figure(what, perCore, ours.perCore).beside("the chain in process, a core", bare).atLeast(8000).
			note("%s requests/s from connections on another core", short(ours.perSecond.median())),
		*figure(what+", beside the same chain behind a plain HTTP server", perCore, ours.perCore).
			beside("that server, in a process of its own", theirs.perCore).ratioAtLeast(0.8),
		*figure(tail, "ms", ours.p99).beside("the plain server's", theirs.p99).ratioAtMost(1.25).
			note("p99 is %s x p50 (%s ms), the plain server's %s x", short(ours.p99.median()/ours.p50.median()), short(ours.p50.median()), short(theirs.p99.median()/theirs.p50.median())),
	}
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
		if err := backoff.Sleep(ctx, 10*time.Millisecond); err != nil {
			return err
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
