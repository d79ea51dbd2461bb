package bundle

import (
	"context"
	"time"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
)

// refused is an event that the fold refused. The plane's own words for why may quote what the
// event says, such as a label, an address or a slug, and are left out: codes say which rule.
type refused struct {
	Seq     uint64    `json:"seq"`
	Time    time.Time `json:"time"`
	Code    string    `json:"code"`
	Broken  []string  `json:"broken,omitempty"` // codes of the rules that it breaks
	Subject string    `json:"subject"`
	EventID string    `json:"event_id"`
	Type    string    `json:"type"`
}

// newestRefused are the newest events that the fold refused, at most so many. The plane lists
// them from a place in its log on, so that place is looked for by halves.
func newestRefused(ctx context.Context, c *client.Client, most int) ([]refused, error) {
	status, err := c.Status(ctx, false)
	if err != nil {
		return nil, err
	}
	var newest []resource.Rejection
	for low, high := uint64(0), status.Head+1; low < high; {
		middle := low + (high-low)/2
		page, err := c.Rejected(ctx, middle, most)
		if err != nil {
			return nil, err
		}
		switch {
		case page.NextCursor == nil:
			newest, high = page.Items, middle
		case newest == nil: // it may stay so: they come faster than one looks
			newest, low = page.Items, middle+1
		default:
			low = middle + 1 // there are more above it
		}
	}
	all := make([]refused, len(newest))
	for i, r := range newest {
		all[i] = refused{r.Seq, r.Time, r.Code, nil, r.Subject, r.EventID, r.Type}
		for _, v := range r.Violations {
			all[i].Broken = append(all[i].Broken, v.Code)
		}
	}
	return all, nil
}
