// Package gen makes realistic worlds out of a seed: policies over every form
// of rule and selector, nodes over label sets, and histories of events that
// lead somewhere interesting (narrowed selectors, labels that flip and flip
// back, slugs that are used again).
//
// The same seed gives the same world on every machine, byte for byte. Values
// are plain structs that marshal to the JSON of the HTTP API; [Scribe] turns a
// history into events of the log. The package imports nothing of the plane, so
// a test may set the product beside it.
package gen

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
)

// Ports is an inclusive range.
type Ports struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// Rule is one rule as an author writes it.
type Rule struct {
	Action          string `json:"action"`
	Protocol        string `json:"protocol"`
	SourceCIDR      string `json:"source_cidr,omitempty"`
	DestinationCIDR string `json:"destination_cidr,omitempty"`
	Ports           *Ports `json:"ports,omitempty"`

	// Of ordered policies.
	SourceSelector      string `json:"source_selector,omitempty"`
	DestinationSelector string `json:"destination_selector,omitempty"`
	ProxyPort           int    `json:"proxy_port,omitempty"`
	ListenerPriority    int    `json:"listener_priority,omitempty"`
	Auth                string `json:"auth,omitempty"`
	Direction           string `json:"direction,omitempty"`
}

// Selector is the text of both sides.
type Selector struct {
	Source      string `json:"source"`
	Destination string `json:"destination"`
}

// Policy marshals to the body that creates it: POST /v1/projects/{p}/policies.
type Policy struct {
	Slug        string   `json:"slug"`
	DisplayName string   `json:"display_name,omitempty"`
	Selector    Selector `json:"selector"`
	Order
	Rules []Rule `json:"rules"`
}

// Node marshals to a line of nodes:batch and of `edict node import`.
type Node struct {
	ID        string            `json:"id"`
	Labels    map[string]string `json:"labels"`
	Addresses []string          `json:"addresses"`
}

// JSON is the value as compact JSON.
func (p Policy) JSON() []byte { return marshal(p) }

// JSON is the value as compact JSON, a line of nodes:batch.
func (n Node) JSON() []byte { return marshal(n) }

// Facts is the body of PUT …/nodes/{id}: everything but the id.
func (n Node) Facts() []byte {
	return marshal(struct {
		Labels    map[string]string `json:"labels"`
		Addresses []string          `json:"addresses"`
	}{n.Labels, n.Addresses})
}

// Gen draws values. It is not safe for several goroutines.
type Gen struct {
	r *rand.Rand
	// directions is a sequence of its own: without it the worlds of a seed would be others
	// than before rules said a direction.
	directions *rand.Rand
	modes      *rand.Rand // likewise, from before policies had a mode
}

// New starts the sequence of draws that belongs to seed.
func New(seed uint64) *Gen {
	draws := func(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }
	return &Gen{r: draws(0x656469637400), directions: draws(0x646972656374), modes: draws(0x6d6f6465)}
}

// World is a set of policies and nodes that concern each other.
type World struct {
	Policies []Policy
	Nodes    []Node
}

// World draws policies and nodes over one label scheme. Every selector form
// and every kind of rule occurs once a dozen policies or so are asked for; the
// last policy has 1,024 rules when there are at least eight.
func (g *Gen) World(policies, nodes int) World {
	w := World{}
	for i := range policies {
		w.Policies = append(w.Policies, g.Policy(fmt.Sprintf("policy-%d", i)))
	}
	if policies >= 8 {
		w.Policies[policies-1].Rules = g.Rules(1024)
	}
	for i := range nodes {
		w.Nodes = append(w.Nodes, g.Node(fmt.Sprintf("node-%d", i)))
	}
	return w
}

// Policy draws a policy with the slug given; one in three is ordered.
func (g *Gen) Policy(slug string) Policy {
	p := Policy{Slug: slug, DisplayName: "Policy " + slug, Selector: g.Selector()}
	if g.r.IntN(3) == 0 {
		p.Order = g.Order()
	}
	p.Rules = g.rulesOf(p, g.ruleCount())
	return p
}

// ruleCount is small as a rule, so that sets stay readable in a failure.
func (g *Gen) ruleCount() int {
	if g.r.IntN(16) == 0 {
		return 20 + g.r.IntN(180)
	}
	return 1 + g.r.IntN(8)
}

func pick[T any](g *Gen, from []T) T { return from[g.r.IntN(len(from))] }

func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain structs of strings and ints always marshal
	}
	return b
}
