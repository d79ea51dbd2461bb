package client

import (
	"iter"
	"net/url"
	"strconv"

	"github.com/edictdev/edict/api/resource"
)

// Page asks for a part of a list. The zero value asks for the first page.
type Page struct {
	Limit  int    // 0: the server's choice
	Cursor string // next_cursor of the page before
	Prefix string // of the slugs of policies, or of the ids of nodes; empty: all
}

func (p Page) query() url.Values {
	q := url.Values{}
	if p.Limit > 0 {
		q.Set("limit", strconv.Itoa(p.Limit))
	}
	if p.Cursor != "" {
		q.Set("cursor", p.Cursor)
	}
	if p.Prefix != "" {
		q.Set("prefix", p.Prefix)
	}
	return q
}

// wholePage is the largest page the server gives.
const wholePage = 200

// all walks a list page by page. After an error it ends.
func all[T any](page func(Page) (resource.Page[T], error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		at := Page{Limit: wholePage}
		for {
			got, err := page(at)
			if err != nil {
				var zero T
				yield(zero, err)
				return
			}
			for _, it := range got.Items {
				if !yield(it, nil) {
					return
				}
			}
			if got.NextCursor == nil {
				return
			}
			at.Cursor = *got.NextCursor
		}
	}
}
