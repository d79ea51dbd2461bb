package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/edictdev/edict/api/resource"
)

// Datapath is the tables that nodes look flows up in.
type Datapath struct{ c *Client }

// Table is a node's table as it was answered. Body is a resource.Datapath,
// verbatim; nil when NotModified.
type Table struct {
	Body        []byte
	ETag        string
	NotModified bool
}

// Table reads the table that a node looks flows up in.
func (d Datapath) Table(ctx context.Context, id string, ask StateQuery) (Table, error) {
	body, res, err := d.c.whole(ctx, ask, "v1", "nodes", id, "datapath")
	if err != nil {
		return Table{}, err
	}
	return Table{Body: body, ETag: res.Header.Get("ETag"), NotModified: res.StatusCode == http.StatusNotModified}, nil
}

// Flow is a flow to explain. Direction is egress or ingress, Peer a node or an
// address; Port is 0 for a protocol without ports.
type Flow struct {
	Direction, Peer, Protocol string
	Port                      uint16
}

// Explain says what a node does with a flow, and why.
func (d Datapath) Explain(ctx context.Context, id string, f Flow) (resource.FlowVerdict, error) {
	q := url.Values{"direction": {f.Direction}, "peer": {f.Peer}, "protocol": {f.Protocol}}
	if f.Port != 0 {
		q.Set("port", strconv.Itoa(int(f.Port)))
	}
	return get[resource.FlowVerdict](ctx, d.c, q, "v1", "nodes", id, "explain")
}
