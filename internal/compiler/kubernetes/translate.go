package kubernetes

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/edictdev/edict/policy"
)

// Places in the order of the policies made of NetworkPolicies, in tier normal. What
// one of them allows goes before what any of them isolates.
const (
	allowPriority    = 2000
	isolatePriority  = 2001
	baselinePriority = 1000 // is added to that of a ClusterNetworkPolicy in tier Baseline

	// The one BaselineAdminNetworkPolicy has no priority and comes behind them.
	baselineAdminPriority = maxClusterPriority + 1
)

// defaultPrefix begins the slugs of the policies that allow what no other decides.
const defaultPrefix = "kubernetes--default--"

// Policy is what became of one direction of an object, or of a part of it.
type Policy struct {
	policy.Draft
	Document int    // the document's index; of what no object says, the first's, or -1 without any
	Pointer  string // the object in it
}

// Result is what became of a set of documents.
type Result struct {
	Objects  int // that were read
	Policies []Policy
	Items    []Item // by document
}

// Wider reports whether the set may let through what the cluster denies, because of
// what could not be expressed.
func (r Result) Wider() bool {
	return slices.ContainsFunc(r.Items, func(i Item) bool { return i.Wider })
}

// Options has a useful zero value, for objects that name their namespaces.
type Options struct {
	Namespace string // of NetworkPolicies that name none
	Machines  bool   // the machines of the cluster are nodes of the plane, as [Machine] makes them
	// Whole: the documents are all of a cluster, so without any, pods allow everything.
	Whole bool
}

// Translate makes ordered policies of the objects in some documents.
//
// Each direction of an object becomes a policy: that of an object for the cluster at
// its tier and priority, a NetworkPolicy's in tier normal, what it allows before what
// it isolates. Their rules say the direction, so each is asked at the end of a flow
// at which Kubernetes asks it, and what an object means does not depend on others.
// Behind them all, two policies allow pods what no object denies.
func Translate(docs [][]byte, opt Options) Result {
	t := translator{}
	for i, doc := range docs {
		r := &reader{document: i}
		if v, ok := parse(r, doc); ok {
			t.objects = append(t.objects, objects(v, opt)...)
		}
		t.readers = append(t.readers, r)
	}
	t.unique()
	for _, o := range t.objects {
		t.object(o)
	}
	t.allowRest(opt.Whole)
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

// unique leaves out objects that are written a second time, and those of which a policy
// would have the slug of another's: it would take that one's place. A hash in a slug is
// short, and who looks for a name with a given one finds it.
func (t *translator) unique() {
	seen, taken := map[string]bool{}, map[string]*object{}
	t.objects = slices.DeleteFunc(t.objects, func(o *object) bool {
		if !o.leftOut && seen[o.id()] {
			o.at.lose("%s is written twice; the second is left out", o.id())
			return true
		}
		for _, slug := range o.slugs() {
			if first := taken[slug]; first != nil && first.id() != o.id() {
				o.at.lose("%s is left out: its policy would have the slug %s, which is of %s; give it another name", o.id(), slug, first.id())
				return true
			}
		}
		for _, slug := range o.slugs() {
			taken[slug] = o
		}
		if !o.leftOut {
			seen[o.id()] = true
		}
		return o.leftOut
	})
}

// object makes the policies of one object.
func (t *translator) object(o *object) {
	for _, s := range o.sections() {
		if !o.kind.namespaced() {
			priority := o.priority
			if o.tier == policy.Baseline {
				priority += baselinePriority
			}
			t.add(o, s, string(s.direction()), s.content(o.tier, priority))
			continue
		}
		closed := section{s.subject, s.ingress, []rule{{action: policy.Deny, peers: anyone(), ports: everyTraffic}}}
		t.add(o, s, string(s.direction()), s.content(policy.Normal, allowPriority))
		t.add(o, &closed, string(s.direction())+isolation, closed.content(policy.Normal, isolatePriority))
	}
}

// isolation ends the part of a policy that denies what its object does not allow.
const isolation = "-isolate"

// Slugs are those that policies of an object may have, whatever it says: also of one that
// can be expressed only in part, or no longer.
func Slugs(of, namespace, name string) (all []string) {
	i := slices.IndexFunc(kinds, func(k *kind) bool { return k.name == of })
	if i < 0 {
		return nil
	}
	return (&object{kind: kinds[i], namespace: namespace, name: name}).slugs()
}

// slugs are those that its policies may have, whatever it says.
func (o *object) slugs() (all []string) {
	for _, ingress := range []bool{true, false} {
		part := string((&section{ingress: ingress}).direction())
		all = append(all, o.slug(part))
		if o.kind.namespaced() {
			all = append(all, o.slug(part+isolation))
		}
	}
	return all
}

// allowRest adds, behind all others, what Kubernetes does with a pod that no object
// isolates: traffic that nobody denies is allowed. A node that no ordered policy
// matches denies it.
func (t *translator) allowRest(always bool) {
	document, at := -1, ""
	if len(t.objects) > 0 {
		first := t.objects[0].at
		document, at = first.r.document, first.at
	} else if !always {
		return
	}
	for _, ingress := range []bool{true, false} {
		s := section{pods(), ingress, []rule{{action: policy.Allow, peers: anyone(), ports: everyTraffic}}}
		slug := defaultPrefix + string(s.direction())
		t.policies = append(t.policies, Policy{policy.Draft{Slug: slug, Content: s.content(policy.Baseline, policy.MaxPriority)}, document, at})
	}
}

// add keeps a policy that has rules. c is the content of s.
func (t *translator) add(o *object, s *section, part string, c policy.Content) {
	if len(c.Rules) == 0 {
		return
	}
	if len(c.Rules) > policy.MaxRules {
		note := o.at.note
		if s.closes() {
			note = o.at.lose
		}
		note("%s of %s is more than the %d rules that a policy may have; it is left out: divide the object", part, o.id(), policy.MaxRules)
		return
	}
	t.policies = append(t.policies, Policy{policy.Draft{Slug: o.slug(part), Content: c}, o.at.r.document, o.at.at})
}

// Owns reports whether a slug is of a policy that Translate made: those that begin as
// its slugs do are kept for it.
func Owns(slug string) bool {
	own := func(k *kind) bool { return strings.HasPrefix(slug, k.prefix+"--") }
	return Rest(slug) || slices.ContainsFunc(kinds, own)
}

// Rest reports whether a slug is of a policy that allows what no object decides.
func Rest(slug string) bool { return strings.HasPrefix(slug, defaultPrefix) }

// slug names a part of an object: np--default--web--ingress. A name that a slug
// cannot say, and one that would not be unique so, ends in a hash instead.
func (o *object) slug(part string) string {
	const most, hashed = 64, 8 // characters
	parts := []string{o.kind.prefix, o.namespace, o.name, part}
	if !o.kind.namespaced() {
		parts = []string{o.kind.prefix, o.name, part}
	}
	plain := strings.Join(parts, "--")
	said := strings.Map(func(r rune) rune {
		if r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' {
			return r
		}
		return '-'
	}, plain)
	if said == plain && len(said) <= most && strings.Count(plain, "--") == len(parts)-1 {
		return plain
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return said[:min(len(said), most-hashed-1)] + "-" + hex.EncodeToString(sum[:hashed/2])
}
