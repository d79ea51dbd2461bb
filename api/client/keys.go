package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/edictdev/edict/api/resource"
)

// RotateKey replaces the plane's key; nodes accept the one before for as long
// as the transition lasts. It returns the keys that are trusted then.
func (c *Client) RotateKey(ctx context.Context, transition time.Duration) ([]resource.Key, error) {
	var out resource.Items[resource.Key]
	_, err := c.do(ctx, request{
		method: http.MethodPost, path: []string{"v1", "keys:rotate"}, query: url.Values{"transition": {transition.String()}},
	}, &out)
	return out.Items, err
}
