package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
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
	s, err := serveEdict(ctx, e)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	events := make([]policy.Event, admitFew)
	for i := range events {
		p := admitPolicy(i)
		events[i] = policy.AdmissionPolicyUpdated{
			ID: uuid.New(), Policy: policy.AdmissionPolicyID(p.ID), Expected: new(uint64), CreatedBy: "bench",
			Document: policy.AdmissionPolicy{
				Name: p.Name, Level: policy.Level(p.Level.String()), ServiceType: p.ServiceType, Priority: int32(p.Priority), Mode: policy.Enforce, Rego: p.Rego,
			},
		}
	}
	if err := s.publish(ctx, events); err != nil {
		return nil, err
	}
	if err := s.registered(ctx, len(events)); err != nil {
		return nil, err
	}
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
	n := e.scale(admitRequests)
	var perCore, perSecond, bare samples
	for range e.rounds() {
		used := cpuSeconds()
		for range n / 4 {
			if r, err := engine.Evaluate(ctx, snapshot, request, admission.Options{}); err != nil || r.Status != admission.Modified {
				return nil, fmt.Errorf("the chain in process did not do what it is there for: %w", err)
			}
		}
		bare = append(bare, float64(n/4)/(cpuSeconds()-used))
		before, err := s.cpuSeconds()
		if err != nil {
			return nil, err
		}
		began := time.Now()
		if err := s.askToAdmit(ctx, n); err != nil {
			return nil, err
		}
		took := time.Since(began).Seconds()
		after, err := s.cpuSeconds()
		if err != nil {
			return nil, err
		}
		perCore = append(perCore, float64(n)/(after-before))
		perSecond = append(perSecond, float64(n)/took)
		say("  %s requests/s a core of server CPU, %s requests/s", short(float64(n)/(after-before)), short(float64(n)/took))
	}
	l := figure(fmt.Sprintf("3 matching of %d over HTTP, %d connections", admitFew, admitConnections), "requests/s a core of server CPU", perCore).
		beside("the chain in process, a core", bare).atLeast(3000)
	return []line{*l.note("%s requests/s with who asks on the same machine", short(perSecond.median()))}, nil
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

// askToAdmit sends n requests, each as soon as the one before it on its
// connection is answered, and looks at every answer.
func (s *served) askToAdmit(ctx context.Context, n int) error {
	body := []byte(`{"request_payload":` + admitPayload + `}`)
	g, ctx := errgroup.WithContext(ctx)
	for range admitConnections {
		g.Go(func() error {
			t := &http.Transport{MaxConnsPerHost: 1, DisableCompression: true}
			defer t.CloseIdleConnections()
			for range n / admitConnections {
				if err := admitOnce(ctx, t, "http://"+s.addr+"/api/v1/engine/evaluate", body); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

func admitOnce(ctx context.Context, t *http.Transport, url string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := t.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	var got resource.Admitted
	if err := json.Unmarshal(text, &got); err != nil || got.Status != string(admission.Modified) || got.ServiceProvider.Value != "aws" ||
		!bytes.Contains(got.RequestPayload, []byte(`"memory":8`)) {
		return fmt.Errorf("%s: %.300s", resp.Status, text)
	}
	return nil
}
