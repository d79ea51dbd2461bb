package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/backoff"
	"github.com/edictdev/edict/internal/test/plexd"
	"github.com/edictdev/edict/policy"
)

const (
	agentsMany  = 1_000
	agentsCycle = 30 * time.Second // an agent's own: it reconnects and reports once
	agentsCalm  = 15 * time.Second // until what their registration left is put away
)

// agentsPull is an agent's clock for pulls, by which each pulls once a cycle: a
// current one does so when it reconnects, a legacy one by its clock alone. In
// the field the clock is a minute for both, which makes as many pulls in all.
func agentsPull(d plexd.Dialect) time.Duration {
	if d == plexd.Legacy {
		return agentsCycle
	}
	return time.Hour
}

// agents measures what it costs to serve agents that are in no hurry: each
// reconnects, sends a heartbeat and pulls once a cycle, over TLS 1.3, with its
// bearer token. The floor is a server in a process of its own that answers the
// same agents with bytes it has ready.
func agents(ctx context.Context, e *env) ([]line, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	own := *e
	var err error
	if own.identity, err = newIdentity(e.dir); err != nil {
		return nil, err
	}
	n := e.scale(agentsMany)
	ours, seen, err := agentsOnEdict(ctx, &own, n)
	if err != nil {
		return nil, err
	}
	e.binary = own.binary
	bare, _, err := agentsOnFloor(ctx, &own, n)
	if err != nil {
		return nil, err
	}
	l := figure("", "% of a core", samples{ours}).beside("a server that answers the same agents with bytes it has ready", samples{bare}).atMost(10).ratioAtMost(1.7)
	l.note("%s agents on a cycle of %s, half of each dialect; in one cycle %s", grouped(int64(n)), agentsCycle, seen)
	return []line{*l}, nil
}

// agentsOnEdict has agents register with a plane and live on it.
func agentsOnEdict(ctx context.Context, e *env, n int) (percent float64, seen string, err error) {
	text, kept := access.NewToken(uuid.New(), time.Time{})
	file := access.File{"bench": {
		Principal: policy.Principal{Kind: policy.Service, Tokens: []policy.Token{kept}},
		Relations: []policy.Relation{{Kind: policy.ObjectPlane, Name: policy.RelationAdmin}},
	}}
	path := filepath.Join(e.dir, "access.json")
	if err := file.Write(path); err != nil {
		return 0, "", err
	}
	e.token = text
	s, err := serveEdict(ctx, e, "--access", path)
	if err != nil {
		return 0, "", err
	}
	s.token = text
	defer func() { err = errors.Join(err, s.close()) }()
	events, tokens := agentEvents(n)
	if err := s.publish(ctx, events); err != nil {
		return 0, "", err
	}
	if _, err := s.settled(ctx); err != nil {
		return 0, "", err
	}
	return liveOn(ctx, s.child, n, func(i int) plexd.Registration {
		return plexd.Registration{Token: tokens[i], Project: project.String(), Resource: "node", Hostname: "node"}
	})
}

// agentEvents are nodes, each with a bootstrap token, and policies for all.
func agentEvents(n int) (events []policy.Event, tokens []string) {
	w := &stageWorld{a: newAuthor(8)}
	for range n {
		id := uuid.New()
		text, kept := access.NewBootstrap(project)
		kept.ID, kept.Expires = uuid.New(), time.Now().Add(time.Hour).UTC()
		tokens = append(tokens, text)
		events = append(events,
			policy.NodeUpdated{ID: w.a.id(), Project: project, Node: policy.NodeID(id.String()), Labels: labelled("env", "prod")},
			policy.PrincipalUpdated{
				ID: w.a.id(), Principal: policy.PrincipalID(id.String()), CreatedBy: "bench",
				Document: policy.Principal{Kind: policy.Agent, Bootstrap: []policy.Bootstrap{kept}},
			})
	}
	for range stagePolicies {
		events = append(events, w.forAll(stageRules))
	}
	return events, tokens
}

// agentsOnFloor has the same agents live on the floor.
func agentsOnFloor(ctx context.Context, e *env, n int) (percent float64, seen string, err error) {
	c, err := startSelf(ctx, e, "floor", readyCommand, e.identity.cert, e.identity.key)
	if err != nil {
		return 0, "", err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	c.trust = e.identity.trust
	return liveOn(ctx, c, n, func(int) plexd.Registration {
		return plexd.Registration{Token: "any", Project: project.String(), Resource: uuid.NewString(), Hostname: "node"}
	})
}

// liveOn has n agents begin over one cycle, and returns the share of a core that
// the server takes in the next.
func liveOn(ctx context.Context, c *child, n int, registration func(i int) plexd.Registration) (percent float64, seen string, err error) {
	alive, stop := context.WithCancel(ctx)
	defer stop()
	g, alive := errgroup.WithContext(alive)
	all := make([]*plexd.Agent, n)
	base := strings.TrimSuffix(c.url("/"), "/")
	for i := range all {
		o := plexd.Options{
			Base: func() string { return base }, Registration: registration(i), Terse: true,
			// HTTP/1.1, as the plane.
			Transport: &http.Transport{TLSClientConfig: c.trust, ForceAttemptHTTP2: false, TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}},
		}
		if i%2 == 1 {
			o.Dialect = plexd.Legacy
		}
		o.Periods.Pull = agentsPull(o.Dialect)
		if all[i], err = plexd.New(o); err != nil {
			return 0, "", err
		}
		g.Go(func() error { return all[i].Run(alive) })
		if err := backoff.Sleep(alive, agentsCycle/time.Duration(n)); err != nil {
			return 0, "", errors.Join(err, g.Wait())
		}
	}
	if err := backoff.Sleep(alive, agentsCalm); err != nil {
		return 0, "", errors.Join(err, g.Wait())
	}
	before, was, err := c.used(all)
	if err != nil {
		return 0, "", err
	}
	if err := backoff.Sleep(alive, agentsCycle); err != nil {
		return 0, "", errors.Join(err, g.Wait())
	}
	after, now, err := c.used(all)
	stop()
	if err = errors.Join(err, g.Wait()); err != nil {
		return 0, "", err
	}
	seen = fmt.Sprintf("%s streams, %s heartbeats, %s pulls", grouped(int64(now.streams-was.streams)), grouped(int64(now.beats-was.beats)), grouped(int64(now.pulls-was.pulls)))
	for _, did := range []int{now.streams - was.streams, now.beats - was.beats, now.pulls - was.pulls} {
		if did < n*9/10 {
			return 0, "", fmt.Errorf("%d agents did less than they must in a cycle: %s", n, seen)
		}
	}
	if now.failures > 0 {
		return 0, "", fmt.Errorf("%d requests of agents failed", now.failures)
	}
	percent = 100 * (after - before) / agentsCycle.Seconds()
	say("  %s%% of a core; %s", short(percent), seen)
	return percent, seen, nil
}

// doings are what agents did.
type doings struct{ streams, beats, pulls, failures int }

// used is the server's CPU so far, and what agents did.
func (c *child) used(all []*plexd.Agent) (cpu float64, d doings, err error) {
	for _, a := range all {
		k := a.Counters()
		d.streams += k.Connects()
		d.beats += k.Heartbeats
		d.pulls += k.Pulls
		d.failures += k.HeartbeatFailures + k.PullFailures + k.Refused() + k.Attempts - k.Connects()
	}
	cpu, err = c.cpuSeconds()
	return cpu, d, err
}

// readyCommand makes this binary the floor of the agents, in a process of its
// own.
const readyCommand = "ready-answers"

// serveReady answers agents with bytes that are the same for all.
func serveReady(readyFile, cert, key string) error {
	state := []byte(`{"peers":[],"reachability":null,"policy":null,"bridge":null,"state":null,"reports":null,"executions":[],"sessions":null}` + "\n")
	answer := func(body []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(body) // the client tells
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/register", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(map[string]string{ // the client tells
			"node_id": uuid.NewString(), "mesh_ip": "192.0.0.8", "signing_key_id": "ready", "node_secret_key": "ready",
			"signing_public_key": strings.Repeat("A", 43) + "=", "nsk": strings.Repeat("A", 43) + "=",
		})
	})
	mux.HandleFunc("GET /v1/nodes/{node}/state", answer(state))
	mux.HandleFunc("POST /v1/nodes/{node}/heartbeat", answer([]byte(`{"accepted_at":"2026-11-20T12:00:00Z","reconcile":false,"rotate_keys":false}`+"\n")))
	mux.HandleFunc("GET /v1/nodes/{node}/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush() // the client tells
		<-r.Context().Done()
	})
	mux.HandleFunc("/", answer([]byte("{}\n")))
	return serveFloor(readyFile, mux, cert, key)
}
