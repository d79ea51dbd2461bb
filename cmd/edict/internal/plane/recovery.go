package plane

import (
	"context"
	"net/url"
	"strings"

	"github.com/edictdev/edict/api/resource"
)

// republish asks for a sync of every partition.
func (p *Plane) republish(ctx context.Context) ([]resource.SyncAsked, error) {
	asked, err := p.relay.Republish(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]resource.SyncAsked, len(asked))
	for i, x := range asked {
		out[i] = resource.SyncAsked{Partition: x.Partition, Epoch: x.Epoch}
	}
	return out, nil
}

// logURL is where NATS clients reach the log. Who may know it need not know
// the password.
func (p *Plane) logURL() string {
	if p.natsURL == "" {
		return ""
	}
	var all []string
	for part := range strings.SplitSeq(p.natsURL, ",") {
		if part = strings.TrimSpace(part); !strings.Contains(part, "://") {
			part = "nats://" + part
		}
		u, err := url.Parse(part)
		if err != nil {
			continue // NATS takes it and we cannot read it: it may hold a password
		}
		u.User = nil
		all = append(all, u.String())
	}
	return strings.Join(all, ",")
}
