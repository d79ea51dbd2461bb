package plane

import (
	"net/url"
	"strings"
)

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
