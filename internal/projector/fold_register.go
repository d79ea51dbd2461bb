package projector

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/policy"
)

// enrollment is what a registration makes of a principal.
type enrollment struct {
	*principal
	bootstrap *policy.Bootstrap
	document  *policy.Principal
}

// judgeRegistration lets a bootstrap token be used once: the first registration in
// the log has it. Whether it has expired is asked of the log's time, so every
// fold answers the same.
func (j *judge) judgeRegistration(ev policy.NodeRegistered, fault *policy.DecodeError) (to enrollment, v Verdict) {
	if v = j.judgeAccess(ev.Principal, ev.ID, fault); !v.accepted() {
		return to, v
	}
	p := j.access.byID[ev.Principal]
	at := -1
	if p != nil && p.document != nil {
		at = findBootstrap(p.document, ev.Bootstrap)
	}
	if at < 0 {
		return to, reject(CodeTokenRevoked, "node %s has no such bootstrap token: it was taken back; make another with edict access bootstrap", ev.Principal)
	}
	t := &p.document.Bootstrap[at]
	switch {
	case t.State == policy.BootstrapConsumed || j.applied(ofToken(t.Hash)):
		return to, reject(CodeTokenConsumed, "bootstrap token %s was used already: make another with edict access bootstrap", t.ID)
	case t.State == policy.BootstrapRevoked:
		return to, reject(CodeTokenRevoked, "bootstrap token %s was revoked: make another with edict access bootstrap", t.ID)
	case j.time >= t.Expires.UnixNano():
		return to, reject(CodeTokenExpired, "bootstrap token %s expired at %s: make another with edict access bootstrap", t.ID, t.Expires.Format(time.RFC3339))
	}
	if ev.Nonce != nil && j.applied(ofNonce(*ev.Nonce)) {
		return to, reject(CodeNonceCollision, "the nonce was used in another registration: choose one at random")
	}
	document, full := registered(p.document, at, ev)
	if full {
		return to, reject(policy.Invalid, "node %s has %d tokens: revoke some", ev.Principal, policy.MaxTokens)
	}
	return enrollment{p, t, document}, Verdict{}
}

// nodeRegistered gives a node its bearer token, in the place of that of an earlier
// registration, and the relation of its agent.
func (f accessFold) nodeRegistered(ev policy.NodeRegistered, fault *policy.DecodeError) Verdict {
	to, v := f.judgeRegistration(ev, fault)
	if !v.accepted() {
		return v
	}
	p := to.principal
	relation := policy.Relation{Kind: policy.ObjectNode, ID: to.bootstrap.Project, Node: policy.NodeID(ev.Principal), Name: policy.RelationAgent}
	if _, at, found := f.findGrant(ev.Principal, relation); !found {
		f.give(p, at, grant{relation, f.seq, p.createdBy})
	}
	if ev.Nonce != nil {
		f.noteApplied(ofNonce(*ev.Nonce))
	}
	f.noteApplied(ofToken(to.bootstrap.Hash))
	p.version, p.updated = f.seq, f.time
	f.access.put(p, to.document)
	f.accessed(p, ev.ID)
	return Verdict{}
}

func findBootstrap(p *policy.Principal, id uuid.UUID) int {
	return slices.IndexFunc(p.Bootstrap, func(t policy.Bootstrap) bool { return t.ID == id })
}

// registered is a principal after a registration with its bootstrap token at;
// full when it has no room for another token.
func registered(p *policy.Principal, at int, ev policy.NodeRegistered) (next *policy.Principal, full bool) {
	d := *p
	d.Bootstrap, d.Tokens = slices.Clone(p.Bootstrap), slices.Clone(p.Tokens)
	d.Bootstrap[at].State = policy.BootstrapConsumed
	if d.Registration != nil {
		d.Tokens = slices.DeleteFunc(d.Tokens, func(t policy.Token) bool { return t.ID == d.Registration.Token })
	}
	if len(d.Tokens) >= policy.MaxTokens {
		return nil, true
	}
	d.Tokens = append(d.Tokens, policy.Token{ID: ev.ID, Hash: ev.Hash})
	d.Registration = &policy.Registration{Token: ev.ID, Bootstrap: ev.Bootstrap, Dialect: ev.Dialect, PublicKey: ev.PublicKey}
	return &d, false
}

// keepConsumed carries into a new document what the fold alone decides: that a
// bootstrap token was used. A writer who has not seen it does not undo it, and neither
// does one who removes the principal and writes it again.
func (f accessFold) keepConsumed(old, document *policy.Principal) {
	for i, t := range document.Bootstrap {
		used := f.applied(ofToken(t.Hash))
		if old != nil && !used {
			at := findBootstrap(old, t.ID)
			used = at >= 0 && old.Bootstrap[at].State == policy.BootstrapConsumed
		}
		if used {
			document.Bootstrap[i].State = policy.BootstrapConsumed
		}
	}
}

// Bootstrap finds the principal that has a bootstrap token, by the token's hash; the
// first by id where several have it.
func (v *View) Bootstrap(hash [32]byte) (p Principal, t policy.Bootstrap, ok bool) {
	ids := v.m.state.access.bootstrap[hash]
	if len(ids) == 0 {
		return p, t, false
	}
	p, _ = v.Principal(ids[0])
	at := slices.IndexFunc(p.Document.Bootstrap, func(t policy.Bootstrap) bool { return t.Hash == hash })
	return p, p.Document.Bootstrap[at], true
}

// Dialect is the form of envelopes that the agent of a node reads.
func (v *View) Dialect(id policy.NodeID) policy.Dialect {
	p := v.m.state.access.byID[policy.PrincipalID(id)]
	if p == nil || p.document == nil || p.document.Registration == nil {
		return policy.DialectCurrent
	}
	return p.document.Registration.Dialect
}
