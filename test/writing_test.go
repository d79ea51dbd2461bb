package test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/oracle"
)

// author writes over HTTP while planes come and go: it sends each write under
// a key of its own until it is acknowledged. It alone writes its policies and
// nodes, so it knows what they must be.
type author struct {
	name   string
	nodes  []string
	base   func() string // where to write now
	client *http.Client
	draw   *rand.Rand
	count  int

	heads    map[string]head              // by slug
	bodies   map[string]oracle.Body       // by policy id
	labels   map[string]map[string]string // by node
	revision []string                     // acknowledged
	updates  map[string]struct{}          // acknowledged: the n labels
	faults   []string
}

func newAuthor(name string, seed uint64, nodes []string, base func() string) *author {
	return &author{
		name: name, nodes: nodes, base: base, draw: rand.New(rand.NewPCG(seed, 2)),
		client: &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{}},
		heads:  map[string]head{}, bodies: map[string]oracle.Body{}, labels: map[string]map[string]string{}, updates: map[string]struct{}{},
	}
}

// step makes one write. What it began it ends, whatever ctx does: but for ctx,
// nothing tells whether it was stored.
func (a *author) step(ctx context.Context) {
	a.count++
	slug := fmt.Sprintf("%s-%d", a.name, a.draw.IntN(3))
	h, there := a.heads[slug]
	switch n := a.draw.IntN(10); {
	case n < 4:
		a.relabel(ctx, a.nodes[a.draw.IntN(len(a.nodes))])
	case !there:
		a.publish(ctx, http.MethodPost, "", slug, "")
	case n < 9:
		a.publish(ctx, http.MethodPatch, "/"+h.id, slug, h.revision)
	default:
		if a.send(ctx, http.MethodDelete, "/policies/"+h.id, nil) != nil {
			delete(a.heads, slug)
			delete(a.bodies, h.id)
		}
	}
}

func (a *author) relabel(ctx context.Context, node string) {
	labels := map[string]string{"role": []string{"web", "db"}[a.draw.IntN(2)], "n": fmt.Sprintf("%s-%d", a.name, a.count)}
	if a.send(ctx, http.MethodPut, "/nodes/"+node, map[string]any{"labels": labels, "addresses": []string{}}) != nil {
		a.labels[node] = labels
		a.updates[labels["n"]] = struct{}{}
	}
}

func (a *author) publish(ctx context.Context, method, path, slug, expected string) {
	a.publishFor(ctx, method, path, slug, expected, []string{"role=web", "role=db", "role", "role!=web"}[a.draw.IntN(4)])
}

func (a *author) publishFor(ctx context.Context, method, path, slug, expected, source string) {
	var rules []oracle.Rule
	for range 1 + a.draw.IntN(4) {
		rules = append(rules, tcp(1+a.draw.IntN(60_000)))
	}
	a.publishRules(ctx, method, path, slug, expected, source, rules)
}

// write publishes a policy, or revises it.
func (a *author) write(ctx context.Context, slug, source string, rules []oracle.Rule) {
	a.count++
	if h, there := a.heads[slug]; there {
		a.publishRules(ctx, http.MethodPatch, "/"+h.id, slug, h.revision, source, rules)
		return
	}
	a.publishRules(ctx, http.MethodPost, "", slug, "", source, rules)
}

func (a *author) publishRules(ctx context.Context, method, path, slug, expected, source string, rules []oracle.Rule) {
	var body oracle.Body
	body.Selector.Source, body.Rules = source, rules
	body.Selector.Destination = "role=nobody"
	doc := map[string]any{"selector": body.Selector, "rules": spelled(body.Rules)}
	if expected == "" {
		doc["slug"], doc["display_name"] = slug, slug
	} else {
		doc["expected_revision_id"] = expected
	}
	answer := a.send(ctx, method, "/policies"+path, doc)
	if answer == nil {
		return
	}
	var p struct {
		ID   string `json:"id"`
		Head struct {
			ID string `json:"id"`
		} `json:"head"`
	}
	if err := json.Unmarshal(answer, &p); err != nil || p.Head.ID == "" {
		a.faults = append(a.faults, fmt.Sprintf("%s %s answers %s", method, path, answer))
		return
	}
	a.heads[slug] = head{p.ID, p.Head.ID}
	a.bodies[p.ID] = body
	a.revision = append(a.revision, p.Head.ID)
}

// send sends one write until it is acknowledged; nil: ctx ended first, or it
// was refused, which nothing here deserves.
func (a *author) send(ctx context.Context, method, path string, doc any) (answer []byte) {
	body, err := json.Marshal(doc)
	if err != nil {
		panic(err)
	}
	key := fmt.Sprintf("%s-%d", a.name, a.count)
	for again := false; ctx.Err() == nil; again = true {
		status, answer := a.try(ctx, method, path, key, body)
		switch {
		case status == http.StatusNotFound && method == http.MethodDelete && again:
			return []byte{} // the first attempt was stored, and its answer lost
		case status >= 200 && status < 300:
			return append([]byte{}, answer...)
		case status >= 400 && status < 500:
			a.faults = append(a.faults, fmt.Sprintf("%s %s, again %v: %d %s", method, path, again, status, answer))
			return nil
		}
		pauseFor(ctx, 5*time.Millisecond)
	}
	return nil
}

func (a *author) try(ctx context.Context, method, path, key string, body []byte) (status int, answer []byte) {
	req, err := http.NewRequestWithContext(ctx, method, a.base()+"/v1/projects/"+defaultProject+path, bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	if method != http.MethodDelete {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Idempotency-Key", key)
	resp, err := a.client.Do(req)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	if answer, err = io.ReadAll(resp.Body); err != nil {
		return 0, nil // cut off: not acknowledged
	}
	return resp.StatusCode, answer
}

// writing is some authors at work.
type writing struct {
	authors []*author
	acked   atomic.Int64
	stop    atomic.Bool
	done    sync.WaitGroup
}

func startWriting(ctx context.Context, pause time.Duration, authors ...*author) *writing {
	l := &writing{authors: authors}
	for _, a := range authors {
		for _, n := range a.nodes { // each node exists before anybody follows it
			a.count++
			a.relabel(ctx, n)
		}
		l.done.Go(func() {
			for ctx.Err() == nil && !l.stop.Load() {
				a.step(ctx)
				l.acked.Add(1)
				pauseFor(ctx, pause)
			}
		})
	}
	return l
}

// end lets every author finish what it began.
func (l *writing) end() {
	l.stop.Store(true)
	l.done.Wait()
}

// mark publishes one more policy for every node: who has heard of it has heard of
// everything before.
func (l *writing) mark(ctx context.Context) {
	a := l.authors[0]
	a.count++
	a.publishFor(ctx, http.MethodPost, "", a.name+"-mark", "", "role")
}

// facts are what the authors know to stand.
func (l *writing) facts(t *testing.T) *oracle.Plane {
	t.Helper()
	plane := &oracle.Plane{}
	l.add(t, plane)
	return plane
}

// add tells a plane the facts.
func (l *writing) add(t *testing.T, plane *oracle.Plane) {
	t.Helper()
	for _, a := range l.authors {
		require.Empty(t, a.faults, "%s was refused", a.name)
		for _, h := range a.heads {
			require.NoError(t, plane.SetPolicy(defaultProject, h.id, h.revision, a.bodies[h.id]))
		}
		for n, labels := range a.labels {
			plane.SetNode(defaultProject, n, labels)
		}
	}
}

// lost lists acknowledged writes that the log lacks.
func (l *writing) lost(log [][]byte) (lost []string) {
	revisions, updates := map[string]bool{}, map[string]bool{}
	for _, body := range log {
		var e struct {
			Revision struct{ ID string }
			Labels   map[string]string
		}
		if json.Unmarshal(body, &e) == nil {
			revisions[e.Revision.ID], updates[e.Labels["n"]] = true, true
		}
	}
	for _, a := range l.authors {
		for _, r := range a.revision {
			if !revisions[r] {
				lost = append(lost, "revision "+r)
			}
		}
		for _, n := range slices.Sorted(maps.Keys(a.updates)) {
			if !updates[n] {
				lost = append(lost, "update "+n)
			}
		}
	}
	return lost
}
