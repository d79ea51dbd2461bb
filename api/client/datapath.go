package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/edictdev/edict/api/resource"
)

// Table is a node's table as it was answered. Body is a resource.Datapath,
// verbatim; nil when NotModified.
type Table struct {
	Body        []byte
	ETag        string
	NotModified bool
}

// Datapath reads the table that a node looks flows up in.
func (c *Client) Datapath(ctx context.Context, id string, ask StateQuery) (Table, error) {
	q := request{method: http.MethodGet, path: []string{"v1", "nodes", id, "datapath"}, query: minSeq(ask.MinSeq)}
	if ask.ETag != "" {
		q.header = http.Header{"If-None-Match": {ask.ETag}}
	}
	res, err := c.send(ctx, q)
	if err != nil {
		return Table{}, err
	}
	defer res.Body.Close()
	t := Table{ETag: res.Header.Get("ETag"), NotModified: res.StatusCode == http.StatusNotModified}
	if t.NotModified {
		return t, nil
	}
	if t.Body, err = io.ReadAll(io.LimitReader(res.Body, maxState)); err != nil {
		return Table{}, c.unanswered(ctx, fmt.Errorf("table of node %s: %w", id, err))
	}
	return t, nil
}

// Flow is a flow to explain. Direction is egress or ingress, Peer a node or an
// address; Port is 0 for a protocol without ports.
type Flow struct {
	Direction, Peer, Protocol string
	Port                      uint16
}

// Explain says what a node does with a flow, and why.
func (c *Client) Explain(ctx context.Context, id string, f Flow) (resource.Explanation, error) {
	q := url.Values{"direction": {f.Direction}, "peer": {f.Peer}, "protocol": {f.Protocol}}
	if f.Port != 0 {
		q.Set("port", strconv.Itoa(int(f.Port)))
	}
	return get[resource.Explanation](ctx, c, q, "v1", "nodes", id, "explain")
}
