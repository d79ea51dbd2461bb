package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/edictdev/edict/api/resource"
)

// Keys are the keys that the plane signs with.
type Keys struct{ c *Client }

// List lists the plane's public keys.
func (k Keys) List(ctx context.Context) ([]resource.Key, error) {
	return items[resource.Key](ctx, k.c, "v1", "keys")
}

// Rotate replaces the plane's key; nodes accept the one before for as long
// as the transition lasts. It returns the keys that are trusted then.
func (k Keys) Rotate(ctx context.Context, transition time.Duration) ([]resource.Key, error) {
	var out resource.Items[resource.Key]
	_, err := k.c.do(ctx, request{
		method: http.MethodPost, path: []string{"v1", "keys:rotate"}, query: url.Values{"transition": {transition.String()}},
	}, &out)
	return out.Items, err
}
