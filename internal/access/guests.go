package access

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// SPIFFEIDs are those of a client's verified certificate; none once it is over,
// though the connection stands. It is one, or none: a certificate with several URIs is no SVID,
// and neither is one that signs others (X509-SVID, section 5.2).
func SPIFFEIDs(state *tls.ConnectionState) (ids []string) {
	if until := certified(state); until.IsZero() || !time.Now().Before(until) {
		return nil
	}
	leaf := state.VerifiedChains[0][0]
	if len(leaf.URIs) != 1 || leaf.URIs[0].Scheme != "spiffe" || leaf.IsCA {
		return nil
	}
	return []string{leaf.URIs[0].String()}
}

// certified is the end of a client's verified certificate; zero: it showed none.
func certified(state *tls.ConnectionState) time.Time {
	if state == nil || len(state.VerifiedChains) == 0 {
		return time.Time{}
	}
	return state.VerifiedChains[0][0].NotAfter
}

// Permissions are what a principal may do over NATS: an agent hears its nodes'
// live messages, asks for their replay and reports for them; whoever operates a
// project appends what it may write through the API. False: nothing.
func (p *Principal) Permissions() (g streams.Guest, ok bool) {
	return p.permissions(func(policy.NodeID, uuid.UUID) bool { return true }, func(uuid.UUID) bool { return false })
}

// permissions are Permissions without the nodes that are not of the project they
// should be, and without the projects that have spent their share. An agent whose
// node is nobody's yet is let in, and hears nothing.
func (p *Principal) permissions(owns func(id policy.NodeID, project uuid.UUID) bool, spent func(project uuid.UUID) bool) (g streams.Guest, ok bool) {
	switch {
	case p.admin:
		g.Account = streams.AccountPlane
	case len(p.nodes) > 0:
		g.Account = streams.AccountNodes
		for id, projects := range p.nodes {
			if !slices.ContainsFunc(projects, func(project uuid.UUID) bool { return owns(id, project) }) {
				continue
			}
			g.Publish = append(g.Publish, wire.ReplaySubject(id), streams.ReportSubject(id))
			g.Hear = append(g.Hear, wire.NodeFilter(id), inbox(string(id)))
		}
	default:
		g.Account, g.Hear = streams.AccountProducers, []string{inbox(string(p.ID))}
		for project, b := range p.projects {
			if !spent(project) {
				g.Publish = append(g.Publish, p.appendable(project, b)...)
			}
		}
		if len(g.Publish) == 0 {
			return g, false
		}
	}
	slices.Sort(g.Publish)
	slices.Sort(g.Hear)
	sum := sha256.Sum256(fmt.Append(nil, g.Account, g.Publish, g.Hear))
	g.Name = string(p.ID) + "/" + hex.EncodeToString(sum[:8])
	return g, true
}

// inbox is where answers come to who is called so: a node, whatever the principals are called
// that are its agents, or a producer.
func inbox(name string) string { return "_INBOX." + name + ".>" }

// appendable are the subjects of the log that an operator of a project may
// append to, and that on which it asks what became of the project's events.
func (p *Principal) appendable(project uuid.UUID, b bits) (subjects []string) {
	if b&operator == 0 {
		return nil
	}
	subjects = append(subjects, wire.LogFilter(project, policy.FamilyNode, "*"), wire.LogFilter(project, policy.FamilyArtifact, "*"), wire.VerdictFilter(project))
	if b&manage != 0 {
		return append(subjects, wire.LogFilter(project, policy.FamilyPolicy, "*"))
	}
	for id, b := range p.policies {
		if b&manage != 0 {
			subjects = append(subjects, wire.LogFilter(project, policy.FamilyPolicy, id.String()))
		}
	}
	return subjects
}

// admitPatience bounds the question to an issuer.
const admitPatience = 3 * time.Second

// Admit implements streams.Guard: a client's token, or its certificate, is as
// good here as over HTTP, and what is shown in vain counts against the address
// as it does there. The guest's name says by which credential it came.
func (r *Registry) Admit(s streams.Credentials) (streams.Guest, bool) {
	shown := Credentials{Bearer: s.Token, SPIFFE: SPIFFEIDs(s.TLS)}
	if shown.None() {
		return streams.Guest{}, false
	}
	p, k := r.known(shown)
	until := time.Time{}
	if s.Token == "" {
		until = certified(s.TLS)
	}
	if p == nil {
		if r.opt.Failures.Blocked(s.From, time.Now()) > 0 {
			return streams.Guest{}, false
		}
		ctx, cancel := context.WithTimeout(context.Background(), admitPatience)
		defer cancel()
		var err error
		if p, k, until, err = r.byIssuer(ctx, shown); err != nil {
			r.opt.Failures.Note(s.From, time.Now())
			return streams.Guest{}, false
		}
	}
	g, ok := p.permissions(r.owns, r.spent)
	if !ok && r.hold(p) {
		g, ok = p.permissions(r.owns, r.spent)
	}
	g.Until = until
	g.Name += "/" + hex.EncodeToString(k[:])
	return g, ok
}

// Stands reports whether the guest of this name would be let in again, with the
// same rights.
func (r *Registry) Stands(name string) bool {
	parts := strings.Split(name, "/")
	if len(parts) != 3 {
		return false
	}
	var k key
	if n, err := hex.Decode(k[:], []byte(parts[2])); err != nil || n != len(k) {
		return false
	}
	p := r.Snapshot().find(k, r.opt.Clock())
	if p == nil || p.ID != policy.PrincipalID(parts[0]) {
		return false
	}
	g, ok := p.permissions(r.owns, r.spent)
	return ok && g.Name == parts[0]+"/"+parts[1]
}

// spent reports whether the producers of a project are kept out now.
func (r *Registry) spent(project uuid.UUID) bool {
	return !r.opt.Excess.Until(project).IsZero() || r.opt.Spent(project)
}

const (
	// shutOutHeld is how long a producer that is shut out waits for its answer, or until it is
	// let in: most clients connect again at once. The server gives it two seconds in all.
	shutOutHeld = time.Second
	// mostHeld may wait so at once; others are refused without.
	mostHeld = 256
)

// hold has a producer that is shut out wait, and reports whether it is to be judged again.
func (r *Registry) hold(p *Principal) bool {
	wait := time.Duration(0)
	for project := range p.projects {
		if left := r.opt.Excess.Until(project).Sub(r.opt.Clock()); left > 0 && (wait == 0 || left < wait) {
			wait = left
		}
	}
	if wait == 0 {
		return false
	}
	defer r.held.Add(-1)
	if r.held.Add(1) > mostHeld {
		return false
	}
	held := time.NewTimer(min(wait, shutOutHeld))
	defer held.Stop()
	select {
	case <-held.C:
		return true
	case <-r.opt.Excess.stopped:
		return false
	}
}

// owns reports whether a node is a project's. It was, once it is: a node id stays
// with the project that named it first.
func (r *Registry) owns(id policy.NodeID, project uuid.UUID) (so bool) {
	r.model.Read(func(v *projector.View) {
		owner, known := v.ProjectOfNode(id)
		so = known && owner == project
	})
	return so
}
