package access

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// Model is what the registry asks of the read model; *projector.Projector is
// one.
type Model interface {
	AccessVersion() uint64
	Read(f func(v *projector.View))
}

// Issuer verifies identity tokens.
type Issuer interface {
	// Verify says whose a token is, and when it is over. An *AwayError: that cannot be known
	// now.
	Verify(ctx context.Context, token string) (who policy.OIDCIdentity, until time.Time, err error)
}

// Options are what a registry has beside the log.
type Options struct {
	File   File             // principals of a file; may be nil
	Issuer Issuer           // nil: identity tokens are unknown
	Clock  func() time.Time // nil: the wall clock
	// Failures count what NATS clients show in vain; nil: nobody does.
	Failures *Failures
	// Spent reports whether a project has had its share of the log: its producers
	// are not let in over NATS. nil: none has.
	Spent func(project uuid.UUID) bool
	// Excess shuts producers out for a while; nil: nobody does.
	Excess *Excess
}

// Registry knows the principals, in step with the fold: what a write that was
// answered gave or took holds for the next request.
type Registry struct {
	model Model
	opt   Options
	now   atomic.Pointer[Snapshot]
	mu    sync.Mutex // making the next snapshot
	held  atomic.Int32
}

// NewRegistry returns a registry over a read model.
func NewRegistry(model Model, opt Options) *Registry {
	if opt.Clock == nil {
		opt.Clock = time.Now
	}
	if opt.Spent == nil {
		opt.Spent = func(uuid.UUID) bool { return false }
	}
	r := &Registry{model: model, opt: opt}
	first := &Snapshot{}
	var own []projector.Principal
	for id := range opt.File {
		own = append(own, projector.Principal{ID: id})
	}
	r.now.Store(first.next(0, own, opt.File))
	return r
}

// Snapshot is who may do what as the fold has it now.
func (r *Registry) Snapshot() *Snapshot {
	if s := r.now.Load(); s.version >= r.model.AccessVersion() {
		return s
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.now.Load()
	var changed []projector.Principal
	var version uint64
	r.model.Read(func(v *projector.View) { changed, version = v.AccessSince(s.version) })
	if version > s.version {
		s = s.next(version, changed, r.opt.File)
		r.now.Store(s)
	}
	return s
}

// Taken is the principal, other than id, that lists a credential of d already,
// and where in d it stands; "" when there is none. Such a credential would prove
// neither of them.
func (r *Registry) Taken(id policy.PrincipalID, d policy.Principal) (by policy.PrincipalID, pointer string) {
	return r.Snapshot().Taken(id, d)
}

// Listed reports whether a principal is in the file of principals.
func (r *Registry) Listed(id policy.PrincipalID) bool { return r.opt.File[id] != nil }

// Filed reports whether the file of principals gives a relation, which nothing in the log takes
// away. A relation to a node that names no project is one to the node of any.
func (r *Registry) Filed(id policy.PrincipalID, rel policy.Relation) bool {
	e := r.opt.File[id]
	return e != nil && slices.ContainsFunc(e.Relations, func(has policy.Relation) bool {
		if !rel.Whole() {
			has.ID = rel.ID
		}
		return has == rel
	})
}

// ErrUnknown means that credentials are nobody's: wrong, expired, revoked, listed by
// several principals, or by a file that was written after the start. It does not say which.
var ErrUnknown = errors.New("the credentials are not known here, or have expired, or several principals list them; the file of serve --access is read at the start alone")

// Credentials are what a client showed.
type Credentials struct {
	Bearer string   // token; empty: none
	SPIFFE []string // ids in its verified certificate
}

// None reports whether nothing was shown.
func (c Credentials) None() bool { return c.Bearer == "" && len(c.SPIFFE) == 0 }

// Authenticate finds the principal whose credentials these are, else
// ErrUnknown; or an *AwayError, where that cannot be known before the issuer of identity
// tokens answers again. A token counts before a certificate: whoever sends one means it.
func (r *Registry) Authenticate(ctx context.Context, c Credentials) (*Principal, error) {
	if p, _ := r.known(c); p != nil {
		return p, nil
	}
	p, _, _, err := r.byIssuer(ctx, c)
	return p, err
}

// known finds the principal of a token or a certificate that is listed, without
// asking an issuer. nil: there is none. The key is the credential's.
func (r *Registry) known(c Credentials) (*Principal, key) {
	s, now := r.Snapshot(), r.opt.Clock()
	if c.Bearer == "" {
		for _, id := range c.SPIFFE {
			k := spiffeKey(id)
			if p := s.find(k, now); p != nil {
				return p, k
			}
		}
		return nil, key{}
	}
	k := tokenKey(sha256.Sum256([]byte(c.Bearer)))
	return s.find(k, now), k
}

// byIssuer finds the principal by a token of an issuer, which must be verified, and may
// have its keys be asked for. until is when that one is over.
func (r *Registry) byIssuer(ctx context.Context, c Credentials) (p *Principal, k key, until time.Time, err error) {
	if r.opt.Issuer == nil || strings.Count(c.Bearer, ".") != 2 {
		return nil, key{}, until, ErrUnknown
	}
	identity, until, err := r.opt.Issuer.Verify(ctx, c.Bearer)
	if away, ok := errors.AsType[*AwayError](err); ok {
		return nil, key{}, until, away
	}
	if err != nil {
		return nil, key{}, until, ErrUnknown
	}
	k = oidcKey(identity)
	if p := r.Snapshot().find(k, r.opt.Clock()); p != nil {
		return p, k, until, nil
	}
	return nil, key{}, until, ErrUnknown
}
