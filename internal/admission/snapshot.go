package admission

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// ServiceTypeLabel is the label by which selectors ask for the service type. A
// request's own label of that name counts for nothing.
const ServiceTypeLabel = "service_type"

// Snapshot is an immutable set of compiled policies, ordered and indexed by
// what they select. A change makes a new snapshot that shares what it can with
// the old one, so its cost hardly grows with the number of policies, and an
// evaluation sees one set from its beginning to its end.
type Snapshot struct {
	version uint64
	count   int
	byID    shards[string, filed]
	byTerm  shards[term, []*Compiled]
}

// filed is a policy of the set.
type filed struct {
	*Compiled
	version uint64 // the log sequence of its last change
}

// NewSnapshot is the set of the policies given, as of a version: the log
// sequence of the last change. Of two policies with one id the later counts.
func NewSnapshot(version uint64, policies ...*Compiled) *Snapshot {
	s := &Snapshot{version: version}
	for _, c := range policies {
		s.put(filed{c, version})
	}
	return s
}

// With is the snapshot with a policy added, or replaced by id.
func (s *Snapshot) With(version uint64, c *Compiled) *Snapshot {
	return s.with(version, filed{c, version})
}

// with is With of a policy that may have changed before the last change of the set.
func (s *Snapshot) with(version uint64, f filed) *Snapshot {
	next := s.copy(version)
	next.put(f)
	return next
}

// Without is the snapshot without the policy of that id.
func (s *Snapshot) Without(version uint64, id string) *Snapshot {
	next := s.copy(version)
	next.remove(id)
	return next
}

func (s *Snapshot) copy(version uint64) *Snapshot {
	next := *s
	next.version = version
	next.byID.disown()
	next.byTerm.disown()
	return &next
}

// Version is the log sequence of the last change.
func (s *Snapshot) Version() uint64 { return s.version }

// Len is how many policies there are.
func (s *Snapshot) Len() int { return s.count }

// All are all policies in the order of the chain. It sorts: not for the path of
// a request.
func (s *Snapshot) All() []*Compiled {
	all := make([]*Compiled, 0, s.count)
	for _, shard := range s.byID.of {
		for _, f := range shard {
			all = append(all, f.Compiled)
		}
	}
	slices.SortFunc(all, inChain)
	return all
}

// Find is the policy of that id; nil: there is none.
func (s *Snapshot) Find(id string) *Compiled {
	f, _ := s.byID.get(id)
	return f.Compiled
}

// Changed is the log sequence of the last change of the policy of that id; 0: there is none.
func (s *Snapshot) Changed(id string) uint64 {
	f, _ := s.byID.get(id)
	return f.version
}

func inChain(a, b *Compiled) int { return a.policy.compare(&b.policy) }

// term is one thing that a request has and a policy asks for. Every policy is
// found under one of its terms, or under the empty one when it asks for none.
type term struct{ kind, value string }

const (
	ofTenant = "\x00tenant"
	ofUser   = "\x00user"
)

// terms are what the policy asks for.
func (p *Policy) terms() []term {
	var ts []term
	if p.ServiceType != "" {
		ts = append(ts, term{ServiceTypeLabel, p.ServiceType})
	}
	for k, v := range p.LabelSelector {
		ts = append(ts, term{k, v})
	}
	if p.TenantID != "" {
		ts = append(ts, term{ofTenant, p.TenantID})
	}
	if p.UserID != "" {
		ts = append(ts, term{ofUser, p.UserID})
	}
	return ts
}

// mismatch says why the policy does not apply to the request; empty when it
// does.
func (p *Policy) mismatch(r *Request) string {
	switch {
	case !p.Enabled:
		return "the policy is disabled"
	case p.ServiceType != "" && p.ServiceType != r.ServiceType:
		return fmt.Sprintf("the service type is %q, not %q", r.ServiceType, p.ServiceType)
	case p.TenantID != "" && p.TenantID != r.TenantID:
		return fmt.Sprintf("the policy is of tenant %q", p.TenantID)
	case p.UserID != "" && p.UserID != r.UserID:
		return fmt.Sprintf("the policy is of user %q", p.UserID)
	}
	for _, k := range slices.Sorted(maps.Keys(p.LabelSelector)) {
		if got, ok := r.label(k); !ok || got != p.LabelSelector[k] {
			return fmt.Sprintf("the label %s is not %q", k, p.LabelSelector[k])
		}
	}
	return ""
}

// matches is mismatch without the words.
func (p *Policy) matches(r *Request) bool {
	if !p.Enabled || p.ServiceType != "" && p.ServiceType != r.ServiceType ||
		p.TenantID != "" && p.TenantID != r.TenantID || p.UserID != "" && p.UserID != r.UserID {
		return false
	}
	for k, v := range p.LabelSelector {
		if got, ok := r.label(k); !ok || got != v {
			return false
		}
	}
	return true
}

func (r *Request) label(key string) (string, bool) {
	if key == ServiceTypeLabel {
		return r.ServiceType, true
	}
	v, ok := r.Labels[key]
	return v, ok
}

// match are the policies that apply to the request, in the order of the chain.
func (s *Snapshot) match(r *Request) []*Compiled {
	var found []*Compiled
	collect := func(t term) {
		candidates, _ := s.byTerm.get(t)
		for _, c := range candidates {
			if c.policy.matches(r) {
				found = append(found, c)
			}
		}
	}
	collect(term{})
	collect(term{ServiceTypeLabel, r.ServiceType})
	if r.TenantID != "" {
		collect(term{ofTenant, r.TenantID})
	}
	if r.UserID != "" {
		collect(term{ofUser, r.UserID})
	}
	for k, v := range r.Labels {
		if k != ServiceTypeLabel {
			collect(term{k, v})
		}
	}
	slices.SortFunc(found, inChain)
	return slices.Compact(found) // a label may be called what another term is
}

// put files the policy under the term that the fewest others are filed under,
// so that a lookup meets few that do not match.
func (s *Snapshot) put(f filed) {
	c := f.Compiled
	s.remove(c.policy.ID)
	s.byID.set(c.policy.ID, f)
	s.count++
	t := s.rarest(c.policy.terms())
	others, _ := s.byTerm.get(t)
	at, _ := slices.BinarySearchFunc(others, c, inChain)
	s.byTerm.set(t, slices.Insert(slices.Clip(slices.Clone(others)), at, c))
}

func (s *Snapshot) rarest(terms []term) term {
	if len(terms) == 0 {
		return term{}
	}
	return slices.MinFunc(terms, func(a, b term) int {
		as, _ := s.byTerm.get(a)
		bs, _ := s.byTerm.get(b)
		return cmp.Or(cmp.Compare(len(as), len(bs)), cmp.Compare(a.kind, b.kind), cmp.Compare(a.value, b.value))
	})
}

func (s *Snapshot) remove(id string) {
	f, ok := s.byID.get(id)
	if !ok {
		return
	}
	c := f.Compiled
	s.byID.drop(id)
	s.count--
	for _, t := range append(c.policy.terms(), term{}) {
		filed, _ := s.byTerm.get(t)
		at := slices.Index(filed, c)
		switch {
		case at < 0:
		case len(filed) == 1:
			s.byTerm.drop(t)
		default:
			s.byTerm.set(t, slices.Delete(slices.Clone(filed), at, at+1))
		}
	}
}
