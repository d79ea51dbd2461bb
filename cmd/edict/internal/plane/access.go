package plane

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/datadir"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// AccessOptions say who may reach the plane, and how. The zero value lets
// whoever is on this machine do anything.
type AccessOptions struct {
	File     string          // principals, as access.ReadFile has them; empty: access is not configured
	Issuer   string          // URL of an OpenID Connect issuer whose identity tokens are believed; empty: none
	Audience string          // that its tokens must be for
	Rate     int             // requests a second of each principal; 0: any number
	TLS      access.TLSFiles // of every listener; Cert empty: none
	Workload string          // address of a SPIFFE Workload API that gives the certificate in place of TLS; empty: none
	Admin    string          // host:port of the operators' routes; empty: with the rest
	Insecure bool            // leave loopback without TLS or without access
}

// adminDefault is where operators' routes are once others leave loopback.
const adminDefault = "127.0.0.1:8081"

// entrance is what guards the listeners.
type entrance struct {
	file     access.File
	registry *access.Registry // nil: access is not configured
	limiter  *access.Limiter
	tls      *tls.Config // nil: none
	admin    net.Listener
	handler  http.Handler // of admin
	nats     *streams.Server
	failures *access.Failures                // of HTTP and of the embedded server
	opened   atomic.Pointer[access.Registry] // registry, for NATS clients
}

// Admit implements streams.Guard. Nobody is let in before it is known who may
// do what.
func (e *entrance) Admit(s streams.Credentials) (streams.Guest, bool) {
	r := e.opened.Load()
	if r == nil {
		return streams.Guest{}, false
	}
	return r.Admit(s)
}

// natsGuard guards the embedded server where access is configured.
func (p *Plane) natsGuard() streams.Guard {
	if p.opt.Access.File == "" {
		return nil
	}
	return &p.entrance
}

// showNATS says what external servers are shown, and what they must show.
func (p *Plane) showNATS(opt *streams.ConnectOptions) error {
	if opt.Creds = p.opt.NATSCreds; opt.Creds != "" {
		if _, err := os.Stat(opt.Creds); err != nil {
			return &datadir.UnusableError{What: "--nats-creds", Err: err}
		}
	}
	if p.opt.NATSCA != "" {
		pool, err := access.ReadCA(p.opt.NATSCA)
		if err != nil {
			return &datadir.UnusableError{What: "--nats-ca", Err: err}
		}
		opt.TLS = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}
	}
	return nil
}

// expelEvery is how soon a NATS client goes that may no longer be there.
const expelEvery = 2 * time.Second

// expel ends the connections of clients whose credentials or rights are gone,
// until ctx ends.
func (p *Plane) expel(ctx context.Context) error {
	r := p.entrance.registry
	if r == nil || p.entrance.nats == nil {
		return nil
	}
	every(ctx, expelEvery, func() bool {
		p.entrance.nats.Expel(r.Stands)
		return true
	})
	return nil
}

// openEntrance reads what guards the listeners, before anything is changed.
func (p *Plane) openEntrance(ctx context.Context) (err error) {
	o := &p.opt.Access
	if o.Admin == "" && !p.opt.NoAPI && !loopback(p.opt.HTTP) {
		o.Admin = adminDefault
	}
	if o.File != "" {
		if p.entrance.file, err = access.ReadFile(o.File); err != nil {
			return &datadir.UnusableError{What: "--access", Err: err}
		}
	}
	if o.Workload != "" {
		w, err := access.OpenWorkload(ctx, o.Workload)
		if err != nil {
			return &datadir.UnusableError{What: "--spiffe-socket", Err: err}
		}
		p.onClose(func() { _ = w.Close() }) // it is the process's last
		p.entrance.tls = w.ServerTLS()
		return nil
	}
	if o.TLS.Cert == "" {
		return nil
	}
	p.entrance.tls, err = access.ServerTLS(o.TLS, func(err error) {
		p.log.Error("the new certificate cannot be used; the one before stays", "error", err)
	})
	if err != nil {
		return &datadir.UnusableError{What: "--tls-cert", Err: err}
	}
	return nil
}

// openAccess makes the registry over the read model.
func (p *Plane) openAccess(ctx context.Context) (err error) {
	o := p.opt.Access
	if o.File == "" {
		return nil
	}
	opt := access.Options{File: p.entrance.file, Failures: p.entrance.failures, Spent: p.spent}
	if o.Issuer != "" {
		if opt.Issuer, err = access.NewIssuer(ctx, o.Issuer, o.Audience, nil); err != nil {
			return &datadir.UnusableError{What: "--oidc-issuer", Err: err}
		}
	}
	p.entrance.registry = access.NewRegistry(p.store, opt)
	p.entrance.opened.Store(p.entrance.registry)
	p.entrance.limiter = access.NewLimiter(o.Rate)
	return nil
}

// exposable says whether the plane may listen where others reach it.
func (o AccessOptions) exposable() bool { return o.Insecure || o.secured() }

// secured says whether everybody proves who they are, the plane too.
func (o AccessOptions) secured() bool { return o.File != "" && (o.TLS.Cert != "" || o.Workload != "") }

func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// listenOn opens one address of the API.
func (p *Plane) listenOn(addr, flag string) (net.Listener, error) {
	open := api.Listen
	if p.opt.Access.exposable() {
		open = api.Expose
	}
	l, err := open(addr)
	if err != nil {
		return nil, datadir.InUse(err, flag, addr)
	}
	p.onClose(func() { _ = l.Close() }) // closed already, once served
	return l, nil
}

// warnExposed says loudly what --insecure does.
func (p *Plane) warnExposed() {
	o := p.opt.Access
	if !o.Insecure || o.secured() {
		return
	}
	detail := "tokens and policies cross the network readable by anybody on the way"
	if o.File == "" {
		detail = "whoever reaches this address may read and write everything"
	}
	p.log.Warn("INSECURE: the plane may be reached without access control or TLS", "detail", detail)
}

// trail reads events of the log above a sequence, at most limit.
func (p *Plane) trail(ctx context.Context, after uint64, limit int) ([]api.Trailed, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	state, err := p.stream.State(ctx)
	if err != nil {
		return nil, err
	}
	var out []api.Trailed
	if after >= state.Last {
		return nil, nil
	}
	for msgs, err := range p.stream.Follow(ctx, after+1) {
		if err != nil {
			return nil, err
		}
		for _, m := range msgs {
			if len(out) == limit || m.Seq > state.Last {
				return out, nil
			}
			out = append(out, api.Trailed{Message: lean(m), Direct: !p.marker.Marked(&m)})
		}
		if len(out) == limit || len(out) > 0 && out[len(out)-1].Seq >= state.Last {
			return out, nil
		}
	}
	return nil, fmt.Errorf("read the log above %d: %w", after, context.Cause(ctx))
}

// What the trail keeps of an event: whoever appends may make a page of them as
// large as a thousand messages.
const (
	trailBody   = 64 << 10 // of those that say more than their headers
	trailHeader = 1 << 10
)

// lean is what of an event the trail shows.
func lean(m streams.Message) streams.Message {
	if len(m.Body) > trailBody {
		m.Body = nil
	}
	kept := make(map[string][]string, 4)
	for _, name := range []string{wire.HeaderCEID, wire.HeaderCEType, wire.HeaderPrincipal, wire.HeaderCorrelation} {
		if v := m.Get(name); v != "" {
			kept[name] = []string{strings.ToValidUTF8(v[:min(len(v), trailHeader)], "")}
		}
	}
	m.Header = kept
	return m
}

// dialect is the form of event envelopes that the agent of a node reads.
func (p *Plane) dialect(id policy.NodeID) (d policy.Dialect) {
	p.store.Read(func(v *projector.View) { d = v.Dialect(id) })
	return d
}
