package wire

import "strings"

// ShownServers are the URLs of NATS servers, comma separated, as errors and people may be shown
// them: without the users and passwords that they may hold, also where one is no URL.
func ShownServers(urls string) string {
	parts := strings.Split(urls, ",")
	for i, p := range parts {
		if at := strings.LastIndexByte(p, '@'); at >= 0 {
			scheme, _, found := strings.Cut(p, "://")
			if !found {
				scheme = "nats"
			}
			parts[i] = scheme + "://" + p[at+1:]
		}
	}
	return strings.Join(parts, ",")
}
