package client

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/internal/wire/dcz"
)

// Datapath is the tables that nodes look flows up in.
type Datapath struct{ c *Client }

// Table is a node's table as it was answered. Body is a resource.Datapath,
// verbatim; nil when NotModified.
type Table struct {
	Body        []byte
	ETag        string
	NotModified bool
	LogSeq      uint64 // at which it was right; 0: an older plane does not say
	// None: the table in audit mode was asked for, and no policy in that mode matches
	// the node.
	None bool
}

// TableQuery narrows a read of a table. The zero value asks for what the log holds now.
type TableQuery struct {
	StateQuery
	// Held is a table at hand: the plane may then send what changed since. nil: there
	// is none.
	Held *HeldTable
	// Audit asks for the table as it would be if policies in audit mode were in force.
	Audit bool
}

// HeldTable is a table that was answered before.
type HeldTable struct {
	Fingerprint [sha256.Size]byte // as the table has it
	// Read gives {"identities":…,"entries":…} as they stood in the answer. It is called
	// only when it is needed; when it fails, the table is asked for as a whole.
	Read func() ([]byte, error)
}

// Table reads the table that a node looks flows up in.
func (d Datapath) Table(ctx context.Context, id string, ask TableQuery) (Table, error) {
	var accept http.Header
	if ask.Held != nil {
		accept = http.Header{"Accept-Encoding": {dcz.Coding + ", gzip"}, dcz.Header: {dcz.Name(ask.Held.Fingerprint)}}
	}
	q := url.Values{}
	if ask.Audit {
		q.Set("mode", "audit")
	}
	res, err := d.c.state(ctx, ask.StateQuery, q, accept, "v1", "nodes", id, "datapath")
	if err != nil {
		return Table{}, err
	}
	defer res.Body.Close()
	t := Table{
		ETag: res.Header.Get("ETag"), NotModified: res.StatusCode == http.StatusNotModified,
		None: res.StatusCode == http.StatusNoContent,
	}
	if t.None && !ask.Audit {
		return Table{}, d.c.unlike(res)
	}
	t.LogSeq, _ = strconv.ParseUint(res.Header.Get(wire.HeaderLogSeq), 10, 64)
	if t.NotModified || t.None {
		return t, nil
	}
	if t.Body, err = d.decode(ask, res); err == nil {
		var like struct { // all tables have it
			NodeID string `json:"node_id"`
		}
		if err = decode(t.Body, &like); err == nil {
			return t, nil
		}
	}
	if ask.Held != nil && ctx.Err() == nil {
		ask.Held = nil
		return d.Table(ctx, id, ask)
	}
	return Table{}, d.c.unfit(ctx, res, err)
}

// decode reads an answer in any of the codings that were asked for.
func (d Datapath) decode(ask TableQuery, res *http.Response) ([]byte, error) {
	switch coding := res.Header.Get("Content-Encoding"); {
	case coding == dcz.Coding && ask.Held != nil:
		held, err := ask.Held.Read()
		if err != nil {
			return nil, err
		}
		return dcz.Decode(res.Body, held, min(d.c.largest, dcz.Max))
	case coding == "gzip": // else the transport has decoded it
		z, err := gzip.NewReader(res.Body)
		if err != nil {
			return nil, err
		}
		return io.ReadAll(d.c.bounded(z))
	case coding == "":
		return io.ReadAll(d.c.bounded(res.Body))
	default:
		return nil, fmt.Errorf("nobody asked for the coding %.40q", coding)
	}
}

// Flow is a flow to explain. Direction is egress or ingress, Peer a node or an
// address; Port is 0 for a protocol without ports.
type Flow struct {
	Direction, Peer, Protocol string
	Port                      uint16
	// Audit asks what would happen if policies in audit mode were in force.
	Audit bool
	// At is a moment of the past, as StateQuery has it; "": now.
	At string
}

// Explain says what a node does with a flow, and why.
func (d Datapath) Explain(ctx context.Context, id string, f Flow) (resource.FlowVerdict, error) {
	q := url.Values{"direction": {f.Direction}, "peer": {f.Peer}, "protocol": {f.Protocol}}
	if f.Port != 0 {
		q.Set("port", strconv.Itoa(int(f.Port)))
	}
	if f.Audit {
		q.Set("mode", "audit")
	}
	if f.At != "" {
		q.Set("at", f.At)
	}
	return get[resource.FlowVerdict](ctx, d.c, q, "v1", "nodes", id, "explain")
}
