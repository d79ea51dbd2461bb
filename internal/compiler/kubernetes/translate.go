package kubernetes

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/edictdev/edict/policy"
)

// Places in the order of the policies made of NetworkPolicies. Within a stage,
// what one of them allows goes before what any of them isolates.
const (
	allowPriority    = 2000 // in tier normal; of the second stage, in tier baseline: 0
	isolatePriority  = 2001
	secondAllow      = 0
	secondIsolate    = 1
	baselinePriority = 1000 // is added to that of a ClusterNetworkPolicy in tier Baseline
)

// Policy is what became of one direction of an object, or of a part of it.
type Policy struct {
	policy.Draft
	Document int    // the document's index
	Pointer  string // the object in it
}

// Result is what became of a set of documents.
type Result struct {
	Objects  int // that were read
	Policies []Policy
	Items    []Item // by document
}

// Translate makes ordered policies of the objects in some documents. Objects that
// are applied together should be translated together, because what one means may
// depend on what others say. namespace is that of NetworkPolicies that name none.
//
// Each direction of an object becomes a policy: a ClusterNetworkPolicy's at its
// tier and priority, a NetworkPolicy's in tier normal, what it allows before what
// it isolates. Where NetworkPolicies speak of both directions, those of ingress
// are the first stage, in tier normal: what they allow is passed on to the
// second, those of egress, which stands first in tier baseline. A flow is
// allowed when both stages allow it, at either end.
func Translate(docs [][]byte, namespace string) Result {
	t := translator{}
	for i, doc := range docs {
		r := &reader{document: i}
		if v, ok := parse(r, doc); ok {
			t.objects = append(t.objects, objects(v, namespace)...)
		}
		t.readers = append(t.readers, r)
	}
	t.unique()
	t.compare()
	for _, o := range t.objects {
		t.object(o)
	}
	res := Result{Objects: len(t.objects), Policies: t.policies}
	for _, r := range t.readers {
		res.Items = append(res.Items, r.items...)
	}
	return res
}

type translator struct {
	readers  []*reader
	objects  []*object
	policies []Policy
}

// unique leaves out objects that are written a second time.
func (t *translator) unique() {
	seen := map[string]bool{}
	t.objects = slices.DeleteFunc(t.objects, func(o *object) bool {
		if seen[o.id()] {
			o.at.note("%s is written twice; the second is left out", o.id())
			return true
		}
		seen[o.id()] = true
		return false
	})
}

// isolates reports whether a NetworkPolicy speaks of a direction.
func (t *translator) isolates(ingress bool) bool {
	return slices.ContainsFunc(t.objects, func(o *object) bool {
		return o.namespace != "" && (ingress && o.ingress != nil || !ingress && o.egress != nil)
	})
}

// staged reports whether NetworkPolicies speak of both directions.
func (t *translator) staged() bool { return t.isolates(true) && t.isolates(false) }

// has reports whether a ClusterNetworkPolicy has a section of a direction that is
// one that is looked for.
func (t *translator) has(ingress bool, looked func(*object, *section) bool) bool {
	return slices.ContainsFunc(t.objects, func(o *object) bool {
		return o.namespace == "" && slices.ContainsFunc(o.sections(), func(s *section) bool { return s.ingress == ingress && looked(o, s) })
	})
}

// compare notes where a rule of a ClusterNetworkPolicy says more in the plane,
// where it stands in the lists of both ends, than in Kubernetes, where it stands
// in one.
func (t *translator) compare() {
	for _, o := range t.objects {
		if o.namespace != "" {
			continue
		}
		for _, s := range o.sections() {
			for _, r := range s.rules {
				if why := t.differs(o, s, r); why != "" {
					r.at.note("imported, and not the same: %s", why)
				}
			}
		}
	}
}

func (t *translator) differs(o *object, s *section, r rule) string {
	denies := func(_ *object, x *section) bool { return x.denies() }
	inTier := func(x *object, _ *section) bool { return x.tier == o.tier }
	switch {
	case r.action == policy.Allow && (t.isolates(!s.ingress) || t.has(!s.ingress, denies)):
		return "it is asked at both ends of a flow and so goes before what restricts the other direction, too"
	case r.action == policy.Pass && t.has(!s.ingress, inTier):
		return "it is asked at both ends of a flow and so passes the other direction's rules of its tier, too"
	case r.action != policy.Deny || o.tier != policy.Baseline:
		return ""
	case t.staged():
		return "it also denies what a NetworkPolicy allows in one direction, where none speaks of the other"
	case t.isolates(!s.ingress):
		return "what a NetworkPolicy allows in the other direction goes before it"
	}
	return ""
}

// object makes the policies of one object.
func (t *translator) object(o *object) {
	for _, s := range o.sections() {
		if o.namespace == "" {
			priority := o.priority
			if o.tier == policy.Baseline {
				priority += baselinePriority
			}
			t.add(o, s.direction(), s.content(o.tier, priority))
			continue
		}
		tier, allow, isolate := policy.Normal, uint32(allowPriority), uint32(isolatePriority)
		if t.staged() && !s.ingress {
			tier, allow, isolate = policy.Baseline, secondAllow, secondIsolate
		}
		if t.staged() && s.ingress {
			for i := range s.rules {
				s.rules[i].action = policy.Pass
			}
		}
		closed := section{s.subject, s.ingress, []rule{{action: policy.Deny, peers: anyone(), ports: everyTraffic}}}
		t.add(o, s.direction(), s.content(tier, allow))
		t.add(o, s.direction()+"-isolate", closed.content(tier, isolate))
	}
}

// add keeps a policy that has rules.
func (t *translator) add(o *object, part string, c policy.Content) {
	if len(c.Rules) == 0 {
		return
	}
	if len(c.Rules) > policy.MaxRules {
		o.at.note("%s of %s is %d rules, and a policy has at most %d; it is left out: divide the object", part, o.id(), len(c.Rules), policy.MaxRules)
		return
	}
	t.policies = append(t.policies, Policy{policy.Draft{Slug: o.slug(part), Content: c}, o.at.r.document, o.at.at})
}

// slug names a part of an object: np--default--web--ingress. A name that a slug
// cannot say, and one that would not be unique so, ends in a hash instead.
func (o *object) slug(part string) string {
	const most, hashed = 64, 8 // characters
	kind := []string{"np", o.namespace, o.name, part}
	if o.namespace == "" {
		kind = []string{"cnp", o.name, part}
	}
	plain := strings.Join(kind, "--")
	said := strings.Map(func(r rune) rune {
		if r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' {
			return r
		}
		return '-'
	}, plain)
	if said == plain && len(said) <= most && strings.Count(plain, "--") == len(kind)-1 {
		return plain
	}
	sum := sha256.Sum256([]byte(strings.Join(kind, "\x00")))
	return said[:min(len(said), most-hashed-1)] + "-" + hex.EncodeToString(sum[:hashed/2])
}
