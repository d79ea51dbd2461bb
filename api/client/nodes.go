package client

import (
	"context"
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

func nodesPath(project uuid.UUID, more ...string) []string {
	return append([]string{"v1", "projects", project.String(), "nodes"}, more...)
}

// PutNode replaces all facts of a node. created reports whether the node is new.
func (c *Client) PutNode(ctx context.Context, project uuid.UUID, id string, f resource.Facts, calls ...Call) (n resource.Node, created bool, err error) {
	if f.Labels == nil {
		f.Labels = map[string]string{}
	}
	if f.Addresses == nil {
		f.Addresses = []string{}
	}
	n, status, err := put[resource.Node](ctx, c, http.MethodPut, f, calls, nodesPath(project, id)...)
	return n, status == http.StatusCreated, err
}

// Node reads a node's facts.
func (c *Client) Node(ctx context.Context, project uuid.UUID, id string) (resource.Node, error) {
	return get[resource.Node](ctx, c, nil, nodesPath(project, id)...)
}

// Nodes reads one page of the nodes whose labels satisfy selector (empty: of
// all), by id.
func (c *Client) Nodes(ctx context.Context, project uuid.UUID, selector string, page Page) (resource.Page[resource.Node], error) {
	q := page.query()
	if selector != "" {
		q.Set("label_selector", selector)
	}
	return listIn[resource.Node](ctx, c, q, nodesPath(project)...)
}

// AllNodes walks all of them.
func (c *Client) AllNodes(ctx context.Context, project uuid.UUID, selector string) iter.Seq2[resource.Node, error] {
	return all(func(at Page) (resource.Page[resource.Node], error) { return c.Nodes(ctx, project, selector, at) })
}

// DeleteNode removes a node.
func (c *Client) DeleteNode(ctx context.Context, project uuid.UUID, id string, calls ...Call) error {
	_, err := c.do(ctx, request{method: http.MethodDelete, path: nodesPath(project, id), calls: calls}, nil)
	return err
}

// ImportNodes streams lines {"id","labels","addresses"} of any number and says
// what became of them, once all are applied.
func (c *Client) ImportNodes(ctx context.Context, project uuid.UUID, lines io.Reader, calls ...Call) (resource.BatchResult, error) {
	var out resource.BatchResult
	_, err := c.do(ctx, request{
		method: http.MethodPost, path: []string{"v1", "projects", project.String(), "nodes:batch"},
		media: "application/x-ndjson", body: lines, calls: calls,
	}, &out)
	return out, err
}

// State is a node's state as it came: equal states have equal bytes.
type State struct {
	Body        []byte
	ETag        string
	EventID     policy.EventID // a stream opened after it misses nothing that Body lacks
	LogSeq      uint64         // the log sequence that Body stands at; 0 of a plane that does not say
	NotModified bool           // the state is that of the ETag asked with; Body is empty
}

// StateQuery narrows a read of a state. The zero value asks for what the log
// holds now.
type StateQuery struct {
	MinSeq uint64 // as of this log sequence at least, rather than now
	ETag   string // of the state at hand
}

// maxState bounds a state: 1024 rules of each of a thousand policies.
const maxState = 256 << 20

// NodeState reads a node's whole desired state.
func (c *Client) NodeState(ctx context.Context, id string, ask StateQuery) (State, error) {
	q := request{method: http.MethodGet, path: []string{"v1", "nodes", id, "state"}, query: minSeq(ask.MinSeq)}
	if ask.ETag != "" {
		q.header = http.Header{"If-None-Match": {ask.ETag}}
	}
	res, err := c.send(ctx, q)
	if err != nil {
		return State{}, err
	}
	defer res.Body.Close()
	s := State{ETag: res.Header.Get("ETag"), NotModified: res.StatusCode == http.StatusNotModified}
	if s.EventID, err = standsAt(res.Header); err != nil {
		return State{}, fmt.Errorf("state of node %s: %w", id, err)
	}
	s.LogSeq, _ = strconv.ParseUint(res.Header.Get(wire.HeaderLogSeq), 10, 64)
	if s.Body, err = io.ReadAll(io.LimitReader(res.Body, maxState)); err != nil {
		return State{}, c.unanswered(ctx, err)
	}
	return s, nil
}

// standsAt is the event id that an answer about a node stands at.
func standsAt(h http.Header) (policy.EventID, error) {
	id, err := policy.ParseEventID(h.Get(wire.HeaderEventID))
	if err != nil {
		err = fmt.Errorf("the answer's Edict-Event-Id: %w", err)
	}
	return id, err
}

// Rulesets lists a node's compiled rulesets by policy id.
func (c *Client) Rulesets(ctx context.Context, id string) ([]resource.Ruleset, error) {
	out, err := get[resource.Items[resource.Ruleset]](ctx, c, nil, "v1", "nodes", id, "rulesets")
	return out.Items, err
}

// Events opens a node's event stream after the event lastID (empty: live from
// now), in the form that the node registered with. The caller reads server-sent
// events from it, and closes it. Following
// a node over cuts is package node's business.
func (c *Client) Events(ctx context.Context, id, lastID string) (io.ReadCloser, error) {
	q := request{
		method: http.MethodGet, path: []string{"v1", "nodes", id, "events"},
		header: http.Header{"Accept": {"text/event-stream"}},
	}
	if lastID != "" {
		q.header.Set("Last-Event-ID", lastID)
	}
	res, err := c.send(ctx, q)
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

func minSeq(n uint64) url.Values {
	if n == 0 {
		return nil
	}
	return url.Values{"min_seq": {strconv.FormatUint(n, 10)}}
}
