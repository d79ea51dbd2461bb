package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/wire"
)

// Facts reads what the digest covers, and seq, the log sequence it stands for:
// all of it, or of a node (empty: none) alone with its rows. The iteration must
// be run, once.
func (c *Client) Facts(ctx context.Context, node string) (seq uint64, facts iter.Seq2[resource.Fact, error], err error) {
	q := request{method: http.MethodGet, path: []string{"v1", "facts"}}
	if node != "" {
		q.query = url.Values{"node": {node}}
	}
	res, err := c.send(ctx, q)
	if err != nil {
		return 0, nil, err
	}
	if seq, err = strconv.ParseUint(res.Header.Get(wire.HeaderLogSeq), 10, 64); err != nil {
		res.Body.Close()
		return 0, nil, c.unfit(ctx, res, fmt.Errorf("its Edict-Log-Seq: %w; %s", err, between))
	}
	return seq, func(yield func(resource.Fact, error) bool) {
		defer res.Body.Close()
		for dec := json.NewDecoder(res.Body); ; {
			var f resource.Fact
			err := dec.Decode(&f)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				err = c.unanswered(ctx, err)
			}
			if !yield(f, err) || err != nil {
				return
			}
		}
	}, nil
}
