package streams

import (
	"net/url"
	"strings"

	"github.com/edictdev/edict/internal/wire"
)

// PublicURLs are the URLs of NATS servers, comma separated, as they may be shown:
// who may know where the log is need not know the password.
func PublicURLs(urls string) string {
	if urls == "" {
		return ""
	}
	var all []string
	for _, server := range wire.Servers(urls) {
		u, err := url.Parse(server)
		if err != nil {
			continue // NATS takes it and we cannot read it: it may hold a password
		}
		u.User = nil
		all = append(all, u.String())
	}
	return strings.Join(all, ",")
}
