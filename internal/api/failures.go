package api

import (
	"net/http"
	"net/netip"
	"strconv"
	"time"
)

// CodeTooManyFailures means that too much was tried in vain from one address.
const CodeTooManyFailures = "too_many_failures"

// blocked says that the sender's address has failed so often that what is not
// known at once is not looked for.
func (p *plane) blocked(c *call) error {
	wait := p.Failures.Blocked(remote(c.r), time.Now())
	if wait <= 0 {
		return nil
	}
	c.w.Header().Set("Retry-After", strconv.Itoa(1+int(wait/time.Second)))
	return problem(http.StatusTooManyRequests, CodeTooManyFailures, "too many credentials that are not known here came from this address; wait, then show good ones")
}

// failed counts against the sender's address.
func (p *plane) failed(c *call) { p.Failures.Note(remote(c.r), time.Now()) }

// remote is the address that the connection comes from. What headers say of it
// anybody may write.
func remote(r *http.Request) netip.Addr {
	at, _ := netip.ParseAddrPort(r.RemoteAddr)
	return at.Addr()
}
