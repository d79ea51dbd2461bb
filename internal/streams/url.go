package streams

import (
	"net/url"
	"strings"
)

// PublicURLs are the URLs of NATS servers, comma separated, as they may be shown:
// who may know where the log is need not know the password.
func PublicURLs(urls string) string {
	if urls == "" {
		return ""
	}
	var all []string
	for part := range strings.SplitSeq(urls, ",") {
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
