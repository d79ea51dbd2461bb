package client

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"strings"

	"github.com/edictdev/edict/api/resource"
)

// FleetHistory is how many nodes stood where in the last hour, as the worker that answers
// saw it.
func (c *Client) FleetHistory(ctx context.Context) (resource.FleetHistory, error) {
	return get[resource.FleetHistory](ctx, c, nil, "v1", "fleet", "history")
}

// FleetEvents follows how many nodes stand where: how it is at once, and then each change,
// at most one a second. The sequence ends with the stream, or with an error.
func (c *Client) FleetEvents(ctx context.Context) iter.Seq2[resource.FleetSample, error] {
	return func(yield func(resource.FleetSample, error) bool) {
		res, err := c.stream(ctx, request{method: http.MethodGet, path: []string{"v1", "fleet", "events"}}, "")
		if err != nil {
			yield(resource.FleetSample{}, err)
			return
		}
		defer res.Body.Close()
		lines := bufio.NewScanner(res.Body)
		for lines.Scan() {
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok {
				continue
			}
			var s resource.FleetSample
			err := json.Unmarshal([]byte(data), &s)
			if err != nil {
				err = c.unanswered(ctx, fmt.Errorf("follow the fleet: %w", err))
			}
			if !yield(s, err) || err != nil {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(resource.FleetSample{}, c.unanswered(ctx, fmt.Errorf("follow the fleet: %w", err)))
		}
	}
}
