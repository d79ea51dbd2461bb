package projector

import (
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/policy"
)

// state is the read model in memory: everything the fold must ask to judge an
// event, and the indexes that keep each event O(what it touches). Pebble holds
// the same facts; load rebuilds one from the other.
type state struct {
	layout
	projects   map[uuid.UUID]*project
	policies   map[uuid.UUID]*policyState
	nodes      map[policy.NodeID]*node
	identities paged[*identity]
	alone      paged[uint32] // by identity, its node where it has but one, and 1 more; 0: it has none or several
	nextIdent  uint32        // ordinal of the next new identity
	nextSel    uint32        // ordinal of the next new selector
	live       live
	roster     uint64 // the last event, since the start, that registered or removed a node
	payloads   payloads
	admission  admissionState
	access     accessState
	left       paged[uint64] // by identity, sequence at which a selector that matched it ended last
	have, lost union         // of the event being folded
	changes    changeLog
	sent       sentLog
	accepted   uint32 // policies, ever
	kept       kept
	usage      usages
	quotas     map[uuid.UUID]*quota      // by project
	archived   map[uuid.UUID]archival    // by project
	underWay   map[*policyState]struct{} // that have a rollout under way
}

// live counts what exists now.
type live struct{ nodes, identities, policies, selectors int }

func newState(parts int) *state {
	return &state{
		layout:    newLayout(parts),
		projects:  map[uuid.UUID]*project{},
		policies:  map[uuid.UUID]*policyState{},
		nodes:     map[policy.NodeID]*node{},
		payloads:  payloads{},
		kept:      newKept(),
		usage:     newUsages(),
		quotas:    map[uuid.UUID]*quota{},
		archived:  map[uuid.UUID]archival{},
		underWay:  map[*policyState]struct{}{},
		admission: newAdmissionState(),
		access:    newAccessState(),
		have:      make(union, parts),
		lost:      make(union, parts),
	}
}

// project holds what is unique or indexed within one project.
type project struct {
	id         uuid.UUID
	slugs      map[string]*policyState
	identities map[string]*identity // by policy.Labels.Key
	selectors  map[string]*selector // by selector.key
	retes      map[string]*rete     // that have signers
	index      index
	lost       map[term][]*lost // kept, oldest first; the zero term: those that require no label
	changed    uint64           // sequence of the last event that changed a node or a policy
	nodes      int              // that are there
	manyHomed  int              // nodes that have several addresses
}

func (s *state) project(id uuid.UUID) *project {
	p := s.projects[id]
	if p == nil {
		p = &project{
			id:         id,
			slugs:      map[string]*policyState{},
			identities: map[string]*identity{},
			selectors:  map[string]*selector{},
			retes:      map[string]*rete{},
			index:      newIndex(),
			lost:       map[term][]*lost{},
		}
		s.projects[id] = p
	}
	return p
}

// policyState is what the fold knows of a policy id, for ever: a deleted id
// stays used. selector is nil once it is deleted.
type policyState struct {
	id        uuid.UUID
	number    uint32 // how many the plane had accepted before it
	project   *project
	slug      string
	name      string
	head      uuid.UUID // of a deleted policy, its last
	headSeq   uint64
	headTime  int64  // unix ns, the log's; of a deleted policy, of its deletion
	since     moment // of the present rules and selector
	selected  uint64 // sequence of the event that gave the selector
	ended     uint64 // sequence of the deletion
	created   int64  // unix ns, the log's
	fp        compiler.Fingerprint
	extended  extension // of the head
	ever      everExtended
	selector  *selector
	revisions revisions
	rollout   *rollout     // the latest; nil: there was none
	of        *policyState // of the arm of a rollout, the policy; else nil
}

func (p *policyState) deleted() bool { return p.selector == nil }

// node is what the fold knows of a node id, for ever: the project that named
// it first owns it. identity is nil while it is removed.
type node struct {
	id        policy.NodeID
	project   *project
	identity  *identity
	ordinal   uint32
	addressed bool         // it has addresses
	manyHomed bool         // it has several
	since     moment       // of the event that gave the present labels
	event     uuid.UUID    // that gave the present facts
	recent    recent       // the events before it
	former    uint64       // number of the latest labels that it had before; they may be kept no more
	artifacts *artifactSet // of its first rete, and with them those of others
}

// placed notes how many addresses a node has.
func (n *node) placed(addresses int) {
	if n.manyHomed {
		n.project.manyHomed--
	}
	if n.addressed, n.manyHomed = addresses > 0, addresses > 1; n.manyHomed {
		n.project.manyHomed++
	}
}

// newNode gives a node id its ordinal, the next one of its partition.
func (s *state) newNode(id policy.NodeID, p *project) *node {
	n := &node{id: id, project: p, ordinal: s.next(id)}
	s.enroll(n)
	return n
}

func (s *state) enroll(n *node) {
	s.enter(n)
	s.nodes[n.id] = n
}

// identity is one distinct label set of a project. It lives while a node has it.
type identity struct {
	ordinal uint32
	project *project
	key     string // labels.Key
	labels  policy.Labels
	nodes   nodeSet
	since   uint64                  // sequence of the event that made it
	found   atomic.Pointer[finding] // nil: nobody asked yet; readers set it, too
}

// hold notes that the nodes of an identity changed. Where each node has a label set of
// its own, what a selector matches is as many nodes, and looking at each identity would
// miss the processor's cache as often.
func (s *state) hold(i *identity) {
	alone := uint32(0)
	if sole, ok := i.nodes.sole(); ok {
		alone = sole + 1
	}
	s.alone.put(i.ordinal, alone)
}

// selector is one distinct selector of a project. It lives while a head uses it.
type selector struct {
	ordinal    uint32
	project    *project
	sel        policy.Selector
	scope      *scope // nil: all label sets
	identities set
	policies   []*policyState // whose head uses it, and arms of rollouts
	filed      [2]filing      // where the index finds it, by side
	generation uint64         // sequence at which a head that uses it last changed
}

// rowsGeneration changes whenever the rows of an identity do, which these selectors match.
func (s *state) rowsGeneration(i *identity, by []*selector) uint64 {
	g := max(i.since, s.left.at(i.ordinal))
	for _, x := range by {
		g = max(g, x.generation)
	}
	return g
}
