package gen

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// scheme is the label scheme of generated nodes: what a key may hold. A key in
// rare is on few nodes, so that existence and absence tell them apart.
var (
	scheme = map[string][]string{
		"env":                {"prod", "stage", "test"},
		"role":               {"web", "app", "db", "cache", "queue", "edge"},
		"region":             {"eu-1", "eu-2", "us-1"},
		"team":               {"shop", "search", "pay"},
		"example.com/tier":   {"front", "middle", "back"},
		"example.com/canary": {"true", "half"},
		"legacy":             {"yes"},
	}
	keys = slices.Sorted(maps.Keys(scheme))
	rare = []string{"example.com/canary", "legacy"}
)

// Selector draws both sides; about one side in eight matches no generated node.
func (g *Gen) Selector() Selector { return Selector{g.Side(), g.Side()} }

// Side draws one to three clauses of any form.
func (g *Gen) Side() string {
	if g.r.IntN(8) == 0 {
		return "role=nobody"
	}
	n := 1 + g.r.IntN(3)
	clauses := []string{g.positive()} // keeps most selectors from matching nearly everything
	for len(clauses) < n {
		clauses = append(clauses, g.Clause())
	}
	if g.r.IntN(10) == 0 { // and a few that name no label a node must have
		clauses[0] = g.negative()
	}
	return strings.Join(clauses, pick(g, []string{",", ", "}))
}

// Clause draws one test of any form.
func (g *Gen) Clause() string {
	if g.r.IntN(2) == 0 {
		return g.positive()
	}
	return g.negative()
}

func (g *Gen) positive() string {
	key := pick(g, keys)
	switch g.r.IntN(4) {
	case 0:
		values := slices.Clone(scheme[key])
		g.r.Shuffle(len(values), func(i, j int) { values[i], values[j] = values[j], values[i] })
		values = values[:1+g.r.IntN(len(values))]
		return key + " in (" + strings.Join(values, pick(g, []string{",", ", "})) + ")"
	case 1:
		return pick(g, []string{key, rare[0], rare[1]})
	default:
		return key + "=" + pick(g, scheme[key])
	}
}

func (g *Gen) negative() string {
	key := pick(g, keys)
	if g.r.IntN(3) == 0 {
		return "!" + pick(g, rare)
	}
	return key + "!=" + pick(g, scheme[key])
}

// Node draws a node with the id given.
func (g *Gen) Node(id string) Node {
	return Node{ID: id, Labels: g.Labels(), Addresses: g.addresses()}
}

// Labels draws a label set of the scheme.
func (g *Gen) Labels() map[string]string {
	labels := map[string]string{}
	for _, key := range keys {
		chance := 9
		if slices.Contains(rare, key) {
			chance = 2
		}
		if g.r.IntN(10) < chance {
			labels[key] = pick(g, scheme[key])
		}
	}
	return labels
}

func (g *Gen) addresses() []string {
	list := []string{}
	if g.r.IntN(8) > 0 {
		list = append(list, fmt.Sprintf("10.%d.%d.%d", g.r.IntN(256), g.r.IntN(256), 1+g.r.IntN(254)))
	}
	if g.r.IntN(3) == 0 {
		list = append(list, fmt.Sprintf("2001:db8::%x", 1+g.r.IntN(65534)))
	}
	return list
}
