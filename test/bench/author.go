package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/policy"
)

// project is the one everything here belongs to.
var project = uuid.MustParse("00000000-0000-4000-8000-000000000000")

// author writes events: the same ones for the same seed.
type author struct {
	r     *rand.Rand
	heads map[uuid.UUID]uuid.UUID // policy → its head revision
}

func newAuthor(seed uint64) *author {
	return &author{r: rand.New(rand.NewPCG(seed, 0x62656e6368)), heads: map[uuid.UUID]uuid.UUID{}}
}

func (a *author) id() (id uuid.UUID) {
	binary.LittleEndian.PutUint64(id[:8], a.r.Uint64())
	binary.LittleEndian.PutUint64(id[8:], a.r.Uint64())
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id
}

// labelled are labels of alternating keys and values, ascending by key.
func labelled(pairs ...string) policy.Labels {
	l := make(policy.Labels, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		l = append(l, policy.Label{Key: pairs[i], Value: pairs[i+1]})
	}
	return l
}

func nodeName(i int) policy.NodeID { return policy.NodeID(fmt.Sprintf("node-%06d", i)) }

// node registers a node, or changes its labels.
func (a *author) node(i int, labels policy.Labels) policy.NodeUpdated {
	return policy.NodeUpdated{
		ID: a.id(), Project: project, Node: nodeName(i), Labels: labels,
		Addresses: policy.Addresses{netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})},
	}
}

// revise publishes the next revision of the i-th policy, its first included.
// The same variant makes the same rules.
func (a *author) revise(i int, selector policy.Selector, rules, variant int) policy.RevisionCreated {
	id := policyID(i)
	e := policy.RevisionCreated{
		ID: a.id(), Project: project, Policy: id, Slug: fmt.Sprintf("policy-%d", i), DisplayName: fmt.Sprintf("Policy %d", i),
		Revision: policy.Revision{
			ID: a.id(), Parent: a.heads[id], Selector: selector, Rules: ruleList(rules, variant),
			CreatedAt: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), CreatedBy: "bench",
		},
	}
	a.heads[id] = e.Revision.ID
	return e
}

func policyID(i int) (id uuid.UUID) {
	binary.BigEndian.PutUint64(id[8:], uint64(i)+1)
	id[6], id[8] = 0x70, 0x80
	return id
}

func ruleList(n, variant int) []policy.Rule {
	rules := make([]policy.Rule, n)
	for i := range rules {
		port := uint16(1 + (variant*31+i*7)%60_000)
		rules[i] = policy.Rule{
			Action: policy.Allow, Protocol: policy.TCP, Ports: policy.Ports{From: port, To: port},
			Source:      netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(variant), 0, 0}), 16),
			Destination: netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 16, byte(i), 0}), 24),
		}
	}
	return rules
}

// selecting is a selector whose source is text and whose destination is on no
// node.
func selecting(text string) policy.Selector {
	source, bad := policy.ParseExpr(text)
	destination, worse := policy.ParseExpr("fleet=none")
	if len(bad)+len(worse) > 0 {
		panic("bench: selector " + text + " does not parse: " + strings.TrimSpace(fmt.Sprint(bad, worse)))
	}
	return policy.Selector{Source: source, Destination: destination}
}
