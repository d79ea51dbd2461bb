package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/admission"
)

// unmatched is a request that no policy is for; echoed is the same of a server that
// only reads it and writes it again.
var (
	unmatched = question{evaluatePath, matching.body[:len(`{"request_payload":{"service_type":"`)] + "none" + matching.body[len(`{"request_payload":{"service_type":"vm`):], approved}
	echoed    = question{evaluatePath, unmatched.body, func(got resource.Admitted) bool { return len(got.RequestPayload) > 0 }}
)

func approved(got resource.Admitted) bool { return got.Status == string(admission.Approved) }

// echoCommand makes this binary a server that echoes, in a process of its own.
const echoCommand = "plain-echo"

func startEcho(ctx context.Context, e *env) (*child, error) {
	return startSelf(ctx, e, "echo", echoCommand)
}

// echo reads a request as one for admission and answers with it: what an evaluation
// costs at least that is sent in JSON.
func echo(w http.ResponseWriter, r *http.Request) {
	var in struct {
		RequestPayload map[string]any `json:"request_payload"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(in) // the client may be gone
}

// admitAmongMany asks a plane with very many policies, beside one with few, for what three
// of them match and for what none does.
func admitAmongMany(ctx context.Context, e *env) (lines []line, err error) {
	own := *e
	own.dir = filepath.Join(e.dir, "few")
	few, err := serveAdmission(ctx, &own, admitFew)
	if err != nil {
		return nil, err
	}
	e.binary = own.binary
	defer func() { err = errors.Join(err, few.close()) }()
	many, err := serveAdmission(ctx, e, e.scale(admitMany))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, many.close()) }()
	plain, err := startEcho(ctx, e)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, plain.stop()) }()
	n := e.scale(admitRequests)
	var inFew, inMany, none, bare samples
	for range e.rounds() {
		for _, m := range []struct {
			into *samples
			of   *child
			what question
		}{{&inFew, few.child, matching}, {&inMany, many.child, matching}, {&none, many.child, unmatched}, {&bare, plain, echoed}} {
			a, err := m.of.ask(ctx, n, m.what)
			if err != nil {
				return nil, err
			}
			*m.into = append(*m.into, a.cpu/float64(n)*1e6)
		}
	}
	return []line{
		*figure(fmt.Sprintf("server CPU of a request, 3 matching of %d", e.scale(admitMany)), "us", inMany).
			beside(fmt.Sprintf("3 matching of %d", admitFew), inFew).ratioAtMost(1.1),
		*figure(fmt.Sprintf("server CPU of a request that none of %d matches", e.scale(admitMany)), "us", none).
			beside("net/http and encoding/json, the same document read and written", bare).ratioAtMost(1.5),
	}, nil
}

// endless is an answer that takes longer than anybody waits.
const endless = `package dcm.policy.endless

result := {"patch": {"n": count([1 | some i in numbers.range(1, 100000); some j in numbers.range(1, 100000); i == j])}}
`

const admitSiegers = 64

// admitSiege asks for what a plane answers at once, at an even pace, alone and beside
// clients that ask for an endless policy of another service type.
func admitSiege(ctx context.Context, e *env) (lines []line, err error) {
	bad := admission.Policy{ID: "endless", Name: "endless", Level: admission.User, ServiceType: "bad", Priority: 1, Rego: endless}
	s, err := serveAdmission(ctx, e, admitFew, bad)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	var alone, beside samples
	refused, asked := 0, 0
	for range e.rounds() {
		quiet, none, err := s.atAPace(ctx, e.scale(1500))
		if err != nil {
			return nil, err
		}
		siege, stop := context.WithCancel(ctx)
		var g errgroup.Group
		for range admitSiegers {
			g.Go(func() error {
				t := &http.Transport{MaxConnsPerHost: 1, DisableCompression: true}
				defer t.CloseIdleConnections()
				q := question{path: evaluatePath, body: `{"request_payload":{"service_type":"bad"}}`}
				for siege.Err() == nil {
					_, _, _ = q.send(siege, t, s.url("")) // it fails, and how is not the question
				}
				return nil
			})
		}
		loud, no, err := s.atAPace(ctx, e.scale(1500))
		stop()
		if err = errors.Join(err, g.Wait()); err != nil {
			return nil, err
		}
		alone, beside = append(alone, quiet.median()), append(beside, loud.median())
		refused, asked = refused+none+no, asked+2*e.scale(1500)
	}
	l := figure(fmt.Sprintf("p50 of innocent requests beside %d clients that ask for an endless policy", admitSiegers), "ms", beside).beside("alone", alone).ratioAtMost(5)
	return []line{*l.target("none refused", refused == 0).note("%d of %d were refused", refused, asked)}, nil
}

// atAPace asks every 2 ms, or as soon as the one before is answered, and counts what is
// not admitted.
func (c *child) atAPace(ctx context.Context, n int) (took samples, refused int, err error) {
	t := &http.Transport{MaxConnsPerHost: 1, DisableCompression: true}
	defer t.CloseIdleConnections()
	pace := time.NewTicker(2 * time.Millisecond)
	defer pace.Stop()
	for range n {
		<-pace.C
		began := time.Now()
		status, _, err := matching.send(ctx, t, c.url(""))
		if err != nil {
			return nil, 0, err
		}
		if took = append(took, float64(time.Since(began).Microseconds())/1e3); status != http.StatusOK {
			refused++
		}
	}
	return took, refused, nil
}
