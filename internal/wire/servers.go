package wire

import "strings"

// ShownServers are the URLs of NATS servers, comma separated, as errors and people may be shown
// them: without the users and passwords that they may hold, also where one is no URL.
func ShownServers(urls string) string {
	parts := strings.Split(urls, ",")
	for i, p := range parts {
		if strings.Contains(p, "@") && !strings.Contains(p, "://") {
			p = "nats://" + p
		}
		parts[i] = ShownServer(p)
	}
	return strings.Join(parts, ",")
}

// ShownServer is the address of one server without the user and password that it may hold, also
// where it is no URL.
func ShownServer(address string) string {
	at := strings.LastIndexByte(address, '@')
	if scheme, _, found := strings.Cut(address, "://"); found && at >= 0 {
		return scheme + "://" + address[at+1:]
	}
	return address[at+1:]
}

// Servers are the addresses of several NATS servers, comma separated, each as a URL.
func Servers(urls string) []string {
	parts := strings.Split(urls, ",")
	for i, p := range parts {
		if parts[i] = strings.TrimSpace(p); !strings.Contains(p, "://") {
			parts[i] = "nats://" + parts[i]
		}
	}
	return parts
}
