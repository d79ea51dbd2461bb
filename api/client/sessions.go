package client

import (
	"context"
	"net/http"

	"github.com/edictdev/edict/api/resource"
)

// OpenSession opens the session of a link, by its code. The answer's cookie is the
// session: an http.Client with a jar keeps it.
func (c *Client) OpenSession(ctx context.Context, code string) (resource.Session, error) {
	return put[resource.Session](ctx, c, http.MethodPost, resource.SessionCode{Code: code}, nil, "v1", "session")
}

// CloseSession has the session's cookie taken back.
func (c *Client) CloseSession(ctx context.Context) error {
	return remove(ctx, c, nil, nil, "v1", "session")
}

// SessionLink makes a link that opens the console in a browser, once, with the
// credentials that the client shows.
func (c *Client) SessionLink(ctx context.Context) (resource.SessionLink, error) {
	var out resource.SessionLink
	_, err := c.do(ctx, request{method: http.MethodPost, path: []string{"v1", "session-links"}}, &out)
	return out, err
}

// SignIn says where people sign in to the console.
func (c *Client) SignIn(ctx context.Context) (resource.SignIn, error) {
	var out resource.SignIn
	_, err := c.do(ctx, request{method: http.MethodGet, path: []string{"v1", "session"}}, &out)
	return out, err
}
