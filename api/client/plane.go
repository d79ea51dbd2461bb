package client

import (
	"context"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
)

// Self says whom the plane takes this client for.
func (c *Client) Self(ctx context.Context) (resource.Self, error) {
	return get[resource.Self](ctx, c, nil, "v1", "access", "self")
}

// Status says how the plane is doing. With digest it reads the whole state.
func (c *Client) Status(ctx context.Context, digest bool) (resource.Status, error) {
	var q url.Values
	if digest {
		q = url.Values{"digest": {"true"}}
	}
	return get[resource.Status](ctx, c, q, "v1", "status")
}

// Rejected lists events that the fold refused, those above the log sequence
// after, at most limit (0: the server's choice).
func (c *Client) Rejected(ctx context.Context, after uint64, limit int) (resource.Page[resource.Rejection], error) {
	return get[resource.Page[resource.Rejection]](ctx, c, above(after, limit), "v1", "rejected")
}

// Audit lists events of the log with who wrote them, those above the log
// sequence after, at most limit (0: the server's choice).
func (c *Client) Audit(ctx context.Context, after uint64, limit int) (resource.Page[resource.AuditEntry], error) {
	return get[resource.Page[resource.AuditEntry]](ctx, c, above(after, limit), "v1", "audit")
}

// AuditQuery is which events of the log are asked for. The zero value asks for all, oldest
// first.
type AuditQuery struct {
	Project       uuid.UUID // uuid.Nil: of any
	Principal     string    // who caused them
	Type          string    // such as node_updated
	Since, Until  time.Time // stored after Since, and at Until or before; zero: no bound
	After, Before uint64    // log sequences; 0: no bound
	Newest        bool      // newest first
	Limit         int       // 0: the server's choice
}

// AuditOf lists one page of those events. The next one is that of q after q.Next.
func (c *Client) AuditOf(ctx context.Context, q AuditQuery) (resource.Page[resource.AuditEntry], error) {
	params := Page{Limit: q.Limit}.query()
	for name, text := range map[string]string{"principal": q.Principal, "type": q.Type} {
		if text != "" {
			params.Set(name, text)
		}
	}
	for name, at := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !at.IsZero() {
			params.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	for name, seq := range map[string]uint64{"after": q.After, "before": q.Before} {
		if seq > 0 {
			params.Set(name, strconv.FormatUint(seq, 10))
		}
	}
	if q.Newest {
		params.Set("order", "desc")
	}
	path := []string{"v1", "audit"}
	if q.Project != uuid.Nil {
		path = []string{"v1", "projects", q.Project.String(), "audit"}
	}
	return get[resource.Page[resource.AuditEntry]](ctx, c, params, path...)
}

// Next moves the query behind a page; more is false behind the last.
func (q *AuditQuery) Next(page resource.Page[resource.AuditEntry]) (more bool, err error) {
	if page.NextCursor == nil {
		return false, nil
	}
	seq, err := strconv.ParseUint(*page.NextCursor, 10, 64)
	if err != nil {
		return false, fmt.Errorf("next_cursor of the audit: %w", err)
	}
	if q.Newest {
		q.Before = seq
	} else {
		q.After = seq
	}
	return true, nil
}

func above(after uint64, limit int) url.Values {
	q := Page{Limit: limit}.query()
	q.Set("after", strconv.FormatUint(after, 10))
	return q
}

// Live returns nil when the process answers.
func (c *Client) Live(ctx context.Context) error {
	res, err := c.send(ctx, request{method: http.MethodGet, path: []string{"livez"}})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err = c.read(ctx, res); err != nil {
		return err
	}
	if media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); media != "text/plain" {
		return c.unfit(ctx, res, fmt.Errorf("it is %.80q, and no plain text; %s", media, between))
	}
	return nil
}

// Ready runs the worker's checks. One that fails is a *Problem with Checks.
func (c *Client) Ready(ctx context.Context) (resource.Readiness, error) {
	var out resource.Readiness
	_, err := c.do(ctx, request{
		method: http.MethodGet, path: []string{"readyz"}, query: url.Values{"verbose": {"true"}}, once: true,
	}, &out)
	if err == nil && out.Checks == nil { // a status others say, too
		err = &UnavailableError{c.Address(), fmt.Errorf(`answer of /readyz: it has no "checks"; %s`, between)}
	}
	return out, err
}

// Document is the plane's description of its API, in OpenAPI 3.1.
func (c *Client) Document(ctx context.Context) ([]byte, error) {
	return c.raw(ctx, "openapi.json")
}

// Metrics is the worker's page for Prometheus.
func (c *Client) Metrics(ctx context.Context) ([]byte, error) { return c.raw(ctx, "metrics") }

// Profile is a profile of the worker, for go tool pprof: heap, allocs, goroutine, block,
// mutex or threadcreate; or profile, which is its CPU during ten seconds.
func (c *Client) Profile(ctx context.Context, name string) ([]byte, error) {
	return c.raw(ctx, "debug", "pprof", name)
}

// raw reads an answer as it is.
func (c *Client) raw(ctx context.Context, path ...string) ([]byte, error) {
	res, err := c.send(ctx, request{method: http.MethodGet, path: path})
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return c.read(ctx, res)
}
