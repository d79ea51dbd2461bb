package listener

import (
	"errors"
	"fmt"
	"net"

	"github.com/edictdev/edict/internal/datadir"
)

// defaultAdmin is where operators' routes are once others leave loopback and nobody has
// to prove who it is.
const defaultAdmin = "127.0.0.1:8081"

// Address is one that a plane listens on, and the flag that names it.
type Address struct{ Flag, HostPort string }

// Addresses are what a plane listens on; an empty one is not served.
type Addresses struct {
	HTTP  string // of the API
	Admin string // of operators' routes; empty: with the rest
	NATS  string // of the embedded server
}

// WithAdmin keeps operators' routes on this machine where the API leaves it, nobody has
// to prove who it is there, and nobody said where they are to be.
func (a Addresses) WithAdmin(guarded bool) Addresses {
	if a.Admin == "" && a.HTTP != "" && !guarded && !loopback(a.HTTP) {
		a.Admin = defaultAdmin
	}
	return a
}

func (a Addresses) all() []Address {
	var out []Address
	for _, x := range []Address{{"--http", a.HTTP}, {"--admin", a.Admin}, {"--nats-listen", a.NATS}} {
		if x.HostPort != "" {
			out = append(out, x)
		}
	}
	return out
}

// CheckForm refuses what is no host and port: *AddressError.
func (a Addresses) CheckForm() error {
	for _, x := range a.all() {
		_, port, err := net.SplitHostPort(x.HostPort)
		if err == nil {
			_, err = net.LookupPort("tcp", port)
		}
		if err != nil {
			return &AddressError{fmt.Sprintf("%s %.80q: want host:port, such as 127.0.0.1:8080, with a port from 0 to 65535", x.Flag, x.HostPort)}
		}
	}
	return nil
}

// CheckLoopback refuses to serve whoever is not on this machine: *AddressError.
func (a Addresses) CheckLoopback() error {
	if err := a.CheckForm(); err != nil {
		return err
	}
	for _, x := range a.all() {
		if !loopback(x.HostPort) {
			return &AddressError{(&ExposedError{Addr: x.HostPort}).Error()}
		}
	}
	return nil
}

// CheckFree is a *datadir.InUseError where somebody listens already.
func (a Addresses) CheckFree() error {
	for _, x := range a.all() {
		l, err := net.Listen("tcp", x.HostPort)
		if err == nil {
			err = l.Close()
		}
		if err != nil {
			return x.failed(err)
		}
	}
	return nil
}

// failed is an error of opening an address, with the flag that names it.
func (x Address) failed(err error) error {
	err = datadir.InUse(err, x.Flag, x.HostPort)
	if errors.As(err, new(*datadir.InUseError)) || errors.As(err, new(*ExposedError)) {
		return err
	}
	return fmt.Errorf("%s %s: %w", x.Flag, x.HostPort, err)
}

// Listeners are open addresses of the API; nil: it is not served there.
type Listeners struct{ HTTP, Admin net.Listener }

// Listen opens the addresses of the API; exposed: they may leave this machine.
func (a Addresses) Listen(exposed bool) (l Listeners, err error) {
	if err := a.CheckForm(); err != nil {
		return l, err
	}
	open := listen
	if exposed {
		open = expose
	}
	for _, x := range []struct {
		Address
		to *net.Listener
	}{{Address{"--http", a.HTTP}, &l.HTTP}, {Address{"--admin", a.Admin}, &l.Admin}} {
		if x.HostPort == "" {
			continue
		}
		if *x.to, err = open(x.HostPort); err != nil {
			l.Close()
			return Listeners{}, x.failed(err)
		}
	}
	return l, nil
}

// Close closes those that are not closed already, as they are once served.
func (l Listeners) Close() {
	for _, x := range []net.Listener{l.HTTP, l.Admin} {
		if x != nil {
			_ = x.Close()
		}
	}
}

// Addr is where l answers; "": nowhere.
func Addr(l net.Listener) string {
	if l == nil {
		return ""
	}
	return l.Addr().String()
}

func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// AddressError is an address the plane does not listen on.
type AddressError struct{ Detail string }

// Error says what to give instead.
func (e *AddressError) Error() string { return e.Detail }
