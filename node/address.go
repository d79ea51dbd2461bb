package node

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/edictdev/edict/internal/wire"
)

// AddressError means that there is no server by that address, and never will be: it is not one.
type AddressError struct {
	Server string // without a password that it may have
	What   string // one that it could be
}

// Error says what an address is.
func (e *AddressError) Error() string {
	return fmt.Sprintf("%.200q is not the address of a server; it is one such as %s", e.Server, e.What)
}

// checkAddress refuses what is no address of a plane. A client of the caller's may know other
// schemes than HTTP's, such as one for a Unix socket.
func checkAddress(server string, callers bool) error {
	u, err := url.Parse(server)
	switch {
	case err != nil:
	case u.Scheme != "http" && u.Scheme != "https":
		if callers && u.Scheme != "" && strings.HasPrefix(server[len(u.Scheme):], "://") {
			return nil
		}
	case u.Host != "":
		if _, err = strconv.ParseUint(u.Port(), 10, 16); err == nil || u.Port() == "" {
			return nil
		}
	}
	return &AddressError{wire.ShownServer(server), "http://127.0.0.1:8080"}
}

// checkPorts refuses addresses of NATS servers of which one has a port that none can have: the
// client would try it again and again. It parses the rest itself.
func checkPorts(servers string) error {
	for _, server := range wire.Servers(servers) {
		u, err := url.Parse(server)
		if err != nil || u.Port() == "" {
			continue
		}
		if _, err := strconv.ParseUint(u.Port(), 10, 16); err != nil {
			return noServers(servers)
		}
	}
	return nil
}

func noServers(servers string) *AddressError {
	return &AddressError{wire.ShownServers(servers), "nats://127.0.0.1:4222"}
}
