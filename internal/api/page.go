package api

import (
	"encoding/base64"
	"net/http"

	"github.com/edictdev/edict/api/resource"
)

const (
	defaultLimit = 50
	maxLimit     = 200
)

// pageOf reads limit and cursor. The cursor's text is what the page before
// ended with; kind keeps cursors of one list from another.
func (c *call) pageOf(kind string) (limit int, after string, err error) {
	limit, err = c.limit()
	if err != nil {
		return 0, "", err
	}
	text := c.r.URL.Query().Get("cursor")
	if text == "" {
		return limit, "", nil
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) <= len(kind)+1 || string(raw[:len(kind)+1]) != kind+":" {
		return 0, "", badCursor()
	}
	return limit, string(raw[len(kind)+1:]), nil
}

// limit above the most is the most: a client that asks for all gets a page.
func (c *call) limit() (int, error) { return c.limitOf(defaultLimit, maxLimit) }

// limitOf is limit with bounds of its own.
func (c *call) limitOf(usual, most uint64) (int, error) {
	n, err := c.queryUint("limit", usual)
	if err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, broken(http.StatusBadRequest, CodeBadParameter, "/limit", "limit is at least 1")
	}
	return int(min(n, most)), nil
}

func badCursor() error {
	return broken(http.StatusBadRequest, CodeBadCursor, "/cursor", "this is no next_cursor of this list")
}

// cut makes a page of up to limit items out of at most limit+1, with the
// cursor that end gives for its last item.
func cut[S, T any](items []S, limit int, kind string, end func(S) string, show func(S) T) resource.Page[T] {
	page := resource.Page[T]{Items: make([]T, 0, min(len(items), limit))}
	for i, it := range items {
		if i == limit {
			next := nextOf(kind, end(items[limit-1]))
			page.NextCursor = &next
			break
		}
		page.Items = append(page.Items, show(it))
	}
	return page
}

// nextOf is the cursor of a list that goes on behind what ended with the text.
func nextOf(kind, end string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(kind + ":" + end))
}
