package listener

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/datadir"
	"github.com/edictdev/edict/internal/streams"
)

// Options say who may reach a plane, and how. The zero value lets whoever is on
// this machine do anything.
type Options struct {
	File     string          // principals, as access.ReadFile has them; empty: access is not configured
	Issuer   string          // URL of an OpenID Connect issuer whose identity tokens are believed; empty: none
	Audience string          // that its tokens must be for
	Secret   string          // file with the secret of the client whose id is Audience; empty: a public client
	Console  string          // URL by which browsers find the plane; empty: as each looked for it
	Rate     int             // requests a second of each principal; 0: any number
	TLS      access.TLSFiles // of every listener; Cert empty: none
	Workload string          // address of a SPIFFE Workload API that gives the certificate in place of TLS; empty: none
	Admin    string          // host:port of the operators' routes; empty: with the rest
	Insecure bool            // leave loopback without TLS or without access
}

// Secured reports whether everybody proves who they are, the plane too.
func (o Options) Secured() bool { return o.File != "" && (o.TLS.Cert != "" || o.Workload != "") }

// Exposable reports whether the plane may listen where others reach it.
func (o Options) Exposable() bool { return o.Insecure || o.Secured() }

// WarnExposed says loudly what Insecure does.
func (o Options) WarnExposed(log *slog.Logger) {
	if !o.Insecure || o.Secured() {
		return
	}
	detail := "tokens and policies cross the network readable by anybody on the way"
	if o.File == "" {
		detail = "whoever reaches this address may read and write everything"
	}
	log.Warn("INSECURE: the plane may be reached without access control or TLS", "detail", detail)
}

// failuresPerSecond is how often credentials may be shown in vain from one
// address.
const failuresPerSecond = 5

// NewFailures counts credentials that are shown in vain, over HTTP and NATS;
// refused hears of each that is refused for it.
func NewFailures(refused func(refusal string)) *access.Failures {
	f := access.NewFailures(failuresPerSecond)
	f.OnRefusal = refused
	return f
}

// Auth authenticates those who reach the plane. It implements streams.Guard:
// NATS clients of the embedded server are let in once Open has said who may do
// what.
type Auth struct {
	opt      Options
	file     access.File
	tls      *tls.Config
	close    func()
	registry atomic.Pointer[access.Registry] // nil: not open yet, or access is not configured
	excess   *access.Excess                  // of registry
	signIn   atomic.Pointer[access.SignIn]   // nil: there is no issuer yet, or it only has keys
	late     *access.LateIssuer              // nil: the issuer answered at the start, or there is none
	log      *slog.Logger
}

// Load reads what the listeners need, before anything is changed. Its errors
// name the flag: *datadir.UnusableError, or context.DeadlineExceeded where a later start may
// go well.
func Load(ctx context.Context, opt Options, log *slog.Logger) (a *Auth, err error) {
	a = &Auth{opt: opt, close: func() {}, log: log}
	if opt.File != "" {
		if a.file, err = access.ReadFile(opt.File); err != nil {
			return nil, &datadir.UnusableError{What: "--access", Err: err}
		}
	}
	if opt.Workload != "" {
		w, err := access.OpenWorkload(ctx, opt.Workload)
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, fmt.Errorf("--spiffe-socket: %w", err) // its agent comes later, maybe, or knows this process later
		}
		if err != nil {
			return nil, &datadir.UnusableError{What: "--spiffe-socket", Err: err}
		}
		a.close = func() { _ = w.Close() } // it is the process's last
		a.tls = w.ServerTLS()
		return a, nil
	}
	if opt.TLS.Cert == "" {
		return a, nil
	}
	a.tls, err = access.ServerTLS(opt.TLS, func(err error) {
		log.Error("the new certificate cannot be used; the one before stays", "error", err)
	})
	if err != nil {
		return nil, &datadir.UnusableError{What: "--tls-cert", Err: err}
	}
	return a, nil
}

// Close lets go of the source of the certificate.
func (a *Auth) Close() { a.close() }

// TLS is of every listener; nil: none.
func (a *Auth) TLS() *tls.Config { return a.tls }

// Guard guards the embedded server where access is configured, else it is nil.
func (a *Auth) Guard() streams.Guard {
	if a.opt.File == "" {
		return nil
	}
	return a
}

// Open goes by the read model from now on: who may do what is known. exceeded
// reports whether a project has had its share of the log; excess, which of them are shut
// out for a while. The registry is nil where access is not configured.
func (a *Auth) Open(ctx context.Context, model access.Model, failures *access.Failures, exceeded func(project uuid.UUID) bool, excess *access.Excess) (r *access.Registry, err error) {
	if a.opt.File == "" {
		return nil, nil
	}
	a.excess = excess
	opt := access.Options{File: a.file, Failures: failures, Spent: exceeded, Excess: excess}
	if a.opt.Issuer != "" {
		if opt.Issuer, err = a.issuer(ctx); err != nil {
			return nil, err
		}
	}
	r = access.NewRegistry(model, opt)
	a.registry.Store(r)
	return r, nil
}

// issuer finds the issuer whose identity tokens are believed. A plane does not wait for one
// that is away: nodes, and all who have other credentials, have nothing to do with it.
func (a *Auth) issuer(ctx context.Context) (access.Issuer, error) {
	secret := ""
	if a.opt.Secret != "" {
		text, err := os.ReadFile(a.opt.Secret)
		if err != nil {
			return nil, &datadir.UnusableError{What: "--oidc-client-secret", Err: err}
		}
		secret = strings.TrimSpace(string(text))
	}
	if err := access.CheckHome(a.opt.Console); err != nil {
		return nil, &datadir.UnusableError{What: "--console-url", Err: err}
	}
	ask := func(ctx context.Context) (*access.OIDC, error) {
		return access.NewIssuer(ctx, a.opt.Issuer, a.opt.Audience, nil)
	}
	offer := func(o *access.OIDC) {
		// What its SignIn may say is that it only has keys: then its tokens are believed all the same.
		if s, err := o.SignIn(secret, a.opt.Console); err == nil {
			a.signIn.Store(s)
		}
	}
	found, err := ask(ctx)
	switch {
	case err == nil:
		offer(found)
		return found, nil
	case !errors.As(err, new(*access.AwayError)) || ctx.Err() != nil:
		return nil, &datadir.UnusableError{What: "--oidc-issuer", Err: err}
	}
	a.late = &access.LateIssuer{Ask: ask, Found: offer, Log: a.log}
	return a.late, nil
}

// Run asks an issuer that was away when the plane started, until it answers or ctx ends.
func (a *Auth) Run(ctx context.Context) error {
	if a.late == nil {
		return nil
	}
	return a.late.Run(ctx)
}

// SignIn is where people sign in to the console; nil: nowhere now.
func (a *Auth) SignIn() *access.SignIn { return a.signIn.Load() }

// Admit implements streams.Guard. Nobody is let in before it is known who may
// do what.
func (a *Auth) Admit(s streams.Credentials) (streams.Guest, bool) {
	r := a.registry.Load()
	if r == nil {
		return streams.Guest{}, false
	}
	return r.Admit(s)
}

// expelEvery is how soon a NATS client goes that may no longer be there.
const expelEvery = 2 * time.Second

// Expel ends the connections of the server's clients whose credentials or rights
// are gone, until ctx ends. server may be nil.
func (a *Auth) Expel(ctx context.Context, server *streams.Server) error {
	r := a.registry.Load()
	if r == nil || server == nil {
		return nil
	}
	defer a.excess.Stop()
	server.OnOverflow(a.excess.Overflow)
	tick := time.NewTicker(expelEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-a.excess.Shut(): // each of their events holds up others
			server.Expel(r.Stands)
			for project := range a.excess.Projects() {
				server.Discard(project)
			}
			continue
		}
		server.Expel(r.Stands)
	}
}

// Limiter bounds the requests of each principal.
func (a *Auth) Limiter() *access.Limiter { return access.NewLimiter(a.opt.Rate) }
