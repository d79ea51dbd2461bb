package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// Nodes are the nodes of projects: the facts that an author states, and what each
// node is sent. A node id is unique in the plane, so what a node is sent needs no
// project.
type Nodes struct{ c *Client }

func nodesPath(project uuid.UUID, more ...string) []string {
	return append([]string{"v1", "projects", project.String(), "nodes"}, more...)
}

// Put replaces all facts of a node. created reports whether the node is new.
func (ns Nodes) Put(ctx context.Context, project uuid.UUID, id string, f resource.Facts, calls ...Call) (n resource.Node, created bool, err error) {
	if f.Labels == nil {
		f.Labels = map[string]string{}
	}
	if f.Addresses == nil {
		f.Addresses = []string{}
	}
	res, err := ns.c.doc(ctx, http.MethodPut, f, calls, &n, nodesPath(project, id)...)
	return n, err == nil && res.StatusCode == http.StatusCreated, err
}

// Get reads a node's facts.
func (ns Nodes) Get(ctx context.Context, project uuid.UUID, id string) (resource.Node, error) {
	return get[resource.Node](ctx, ns.c, nil, nodesPath(project, id)...)
}

// List reads one page of the nodes whose labels satisfy selector (empty: of
// all), by id.
func (ns Nodes) List(ctx context.Context, project uuid.UUID, selector string, page Page) (resource.Page[resource.Node], error) {
	q := page.query()
	if selector != "" {
		q.Set("label_selector", selector)
	}
	return get[resource.Page[resource.Node]](ctx, ns.c, q, nodesPath(project)...)
}

// All walks all of the nodes.
func (ns Nodes) All(ctx context.Context, project uuid.UUID, selector string) iter.Seq2[resource.Node, error] {
	return all(func(at Page) (resource.Page[resource.Node], error) { return ns.List(ctx, project, selector, at) })
}

// Delete removes a node.
func (ns Nodes) Delete(ctx context.Context, project uuid.UUID, id string, calls ...Call) error {
	return remove(ctx, ns.c, nil, calls, nodesPath(project, id)...)
}

// Import streams lines {"id","labels","addresses"} of any number and says what
// became of them, once all are applied.
func (ns Nodes) Import(ctx context.Context, project uuid.UUID, lines io.Reader, calls ...Call) (resource.BatchResult, error) {
	return batch(ctx, ns.c, lines, calls, "v1", "projects", project.String(), "nodes:batch")
}

// State is a node's state as it came: equal states have equal bytes.
type State struct {
	Body        []byte
	ETag        string
	EventID     policy.EventID // a stream opened after it misses nothing that Body lacks
	LogSeq      uint64         // the log sequence that Body stands at; 0 of a plane that does not say
	NotModified bool           // the state is that of the ETag asked with; Body is empty
}

// Policies reads the rules of the policies that match a node, in the order in which
// they are tried; with all, also those that do not apply to it.
func (ns Nodes) Policies(ctx context.Context, id string, all bool) (resource.NodePolicies, error) {
	q := url.Values{}
	if all {
		q.Set("all", "true")
	}
	return get[resource.NodePolicies](ctx, ns.c, q, "v1", "nodes", id, "policies")
}

// StateQuery narrows a read of a state. The zero value asks for what the log
// holds now.
type StateQuery struct {
	MinSeq uint64 // as of this log sequence at least, rather than now
	ETag   string // of the state at hand
	// At is a moment of the past, without MinSeq: a log sequence, or a time as RFC 3339
	// has it; "": now.
	At string
}

// State reads a node's whole desired state.
func (ns Nodes) State(ctx context.Context, id string, ask StateQuery) (State, error) {
	res, err := ns.c.state(ctx, ask, url.Values{}, nil, "v1", "nodes", id, "state")
	if err != nil {
		return State{}, err
	}
	defer res.Body.Close()
	s := State{ETag: res.Header.Get("ETag"), NotModified: res.StatusCode == http.StatusNotModified}
	s.LogSeq, _ = strconv.ParseUint(res.Header.Get(wire.HeaderLogSeq), 10, 64)
	if !s.NotModified {
		if s.Body, err = ns.c.read(ctx, res); err != nil {
			return State{}, err
		}
		var like struct { // all states have it; the rest is for who reads the state
			Peers json.RawMessage `json:"peers"`
		}
		if err := decode(s.Body, &like); err != nil {
			return State{}, ns.c.unfit(ctx, res, err)
		}
	}
	if s.EventID, err = standsAt(res.Header); err != nil {
		return State{}, ns.c.unfit(ctx, res, err)
	}
	return s, nil
}

// standsAt is the event id that an answer about a node stands at.
func standsAt(h http.Header) (policy.EventID, error) {
	id, err := policy.ParseEventID(h.Get(wire.HeaderEventID))
	if err != nil {
		err = fmt.Errorf("its Edict-Event-Id: %w; %s", err, between)
	}
	return id, err
}

// Rulesets lists a node's compiled rulesets by policy id.
func (ns Nodes) Rulesets(ctx context.Context, id string) ([]resource.Ruleset, error) {
	return items[resource.Ruleset](ctx, ns.c, "v1", "nodes", id, "rulesets")
}

// Diff says what became of a node between two moments, each a log sequence or a time as
// RFC 3339 has it; to "": the log's head.
func (ns Nodes) Diff(ctx context.Context, id, from, to string) (resource.NodeDiff, error) {
	q := url.Values{"from": {from}}
	if to != "" {
		q.Set("to", to)
	}
	return get[resource.NodeDiff](ctx, ns.c, q, "v1", "nodes", id, "diff")
}

// Events opens a node's event stream after the event lastID (empty: live from
// now), in the form that the node registered with. The caller reads server-sent
// events from it, and closes it. Following
// a node over cuts is package node's business.
func (ns Nodes) Events(ctx context.Context, id, lastID string) (io.ReadCloser, error) {
	res, err := ns.c.stream(ctx, request{method: http.MethodGet, path: []string{"v1", "nodes", id, "events"}}, lastID)
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// Artifacts lists what a node must hold, by kind and name. A stream opened after
// id misses nothing that items lack.
func (ns Nodes) Artifacts(ctx context.Context, node string) (items []resource.Artifact, id policy.EventID, err error) {
	var out resource.Items[resource.Artifact]
	res, err := ns.c.do(ctx, request{method: http.MethodGet, path: []string{"v1", "nodes", node, "artifacts"}}, &out)
	if err != nil {
		return nil, 0, err
	}
	if id, err = standsAt(res.Header); err != nil {
		return nil, 0, ns.c.unfit(ctx, res, err)
	}
	return out.Items, id, nil
}

// ReportApplied reports what a node applied.
func (ns Nodes) ReportApplied(ctx context.Context, node string, a resource.Applied) error {
	_, err := ns.c.doc(ctx, http.MethodPost, a, nil, nil, "v1", "nodes", node, "applied")
	return err
}
