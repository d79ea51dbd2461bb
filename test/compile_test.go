package test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/test/leftout"
	"github.com/edictdev/edict/internal/test/oracle"
	"github.com/edictdev/edict/policy"
)

const project = "00000000-0000-4000-8000-000000000000"

// plane puts the pure parts of the product together without a store: decode,
// match, compile, merge. The whole product is compared over HTTP elsewhere;
// here a difference points at policy or compiler.
type plane struct {
	heads map[uuid.UUID]policy.RevisionCreated
	nodes map[policy.NodeID]policy.NodeUpdated
	rules map[uuid.UUID]compiler.Ruleset // by revision
}

func newPlane() *plane {
	return &plane{
		map[uuid.UUID]policy.RevisionCreated{},
		map[policy.NodeID]policy.NodeUpdated{},
		map[uuid.UUID]compiler.Ruleset{},
	}
}

func (p *plane) apply(body []byte) error {
	e, err := policy.Decode(body)
	if err != nil {
		return err
	}
	switch e := e.(type) {
	case policy.RevisionCreated:
		p.heads[e.Policy] = e
		p.rules[e.Revision.ID] = compiler.Compile(e.Revision.InForce())
	case policy.PolicyDeleted:
		delete(p.heads, e.Policy)
	case policy.NodeUpdated:
		p.nodes[e.Node] = e
	case policy.NodeRemoved:
		delete(p.nodes, e.Node)
	}
	return nil
}

// block is a node's policy block; match decides who takes part.
func (p *plane) block(id policy.NodeID, match func(policy.Selector, policy.Labels) bool) string {
	n := p.nodes[id]
	var rows []compiler.Row
	counted := ""
	for _, h := range p.heads {
		if h.Project == n.Project && !h.Revision.Order.Audit && match(h.Revision.Selector, n.Labels) {
			rs := p.rules[h.Revision.ID]
			rows = append(rows, compiler.Row{Policy: h.Policy, Revision: h.Revision.ID, Fingerprint: rs.Fingerprint, Payload: rs.Payload})
		}
	}
	b, omitted, ok := compiler.MergePlain(rows)
	if !ok {
		return "null"
	}
	if omitted > 0 {
		counted = fmt.Sprintf(`,"rules_omitted":%d`, omitted)
	}
	return fmt.Sprintf(`{"revision_id":"%s","fingerprint":"%s","rules":%s%s}`, b.Revision, b.Fingerprint, b.Rules, counted)
}

// differences applies a history to product and oracle, and counts the nodes whose
// blocks differ at the end.
func differences(t *testing.T, events []gen.Event, match func(policy.Selector, policy.Labels) bool) (nodes, differ int) {
	t.Helper()
	p, o := newPlane(), new(oracle.Plane)
	for _, e := range events {
		require.NoError(t, p.apply(e.Body), "%s", e.Body)
		require.NoError(t, o.Apply(e.Body))
	}
	blocks := map[string][2]string{} // one comparison a label set
	for _, id := range o.Nodes() {
		key := p.nodes[policy.NodeID(id)].Labels.Key()
		pair, known := blocks[key]
		if !known {
			pair = [2]string{p.block(policy.NodeID(id), match), o.Block(id)}
			blocks[key] = pair
		}
		if pair[0] != pair[1] {
			differ++
		}
	}
	return len(o.Nodes()), differ
}

func TestPureCoreAgreesWithTheOracleOnGeneratedWorlds(t *testing.T) {
	for seed := range uint64(8) {
		g := gen.New(seed)
		events := gen.NewScribe(project, seed).WriteAll(g.History(g.World(30, 60), 250))
		nodes, differ := differences(t, events, policy.Selector.Matches)
		require.Positive(t, nodes)
		require.Zero(t, differ, "seed %d", seed)
	}
}

func TestPureCoreAgreesWithTheOracleOnTheCloudPolicies(t *testing.T) {
	policies, err := gen.AWS()
	if errors.Is(err, gen.ErrNoFixtures) {
		leftout.Less(t, err)
		policies = gen.New(1).AWSLike(617)
	} else {
		require.NoError(t, err)
	}
	scribe := gen.NewScribe(project, 1)
	var events []gen.Event
	for _, p := range policies {
		events = append(events, scribe.Write(gen.Step{Kind: gen.Create, Slug: p.Slug, Policy: p}))
	}
	for _, n := range gen.New(2).AWSNodes(policies, 10_000) {
		events = append(events, scribe.Write(gen.Step{Kind: gen.Register, Node: n}))
	}
	nodes, differ := differences(t, events, policy.Selector.Matches)
	require.Equal(t, 10_000, nodes)
	require.Zero(t, differ)
}

// TestTheOracleNoticesAWrongMatcher bends one test of the matcher at a time, as
// a mistake in the product would, and asks that the comparison sees it.
func TestTheOracleNoticesAWrongMatcher(t *testing.T) {
	bent := func(bend func(policy.Clause) policy.Clause) func(policy.Selector, policy.Labels) bool {
		side := func(e policy.Expr) policy.Expr {
			e = slices.Clone(e)
			for i, c := range e {
				e[i] = bend(c)
			}
			return e
		}
		return func(s policy.Selector, l policy.Labels) bool {
			return policy.Selector{Source: side(s.Source), Destination: side(s.Destination)}.Matches(l)
		}
	}
	g := gen.New(11)
	events := gen.NewScribe(project, 11).WriteAll(g.History(g.World(60, 100), 300))
	for says, c := range map[string]struct{ from, to policy.Op }{
		"!= turned round":       {policy.NotEqual, policy.Equal},
		"absent turned round":   {policy.Absent, policy.Exists},
		"in turned to existing": {policy.In, policy.Exists},
	} {
		t.Run(says, func(t *testing.T) {
			_, differ := differences(t, events, bent(func(x policy.Clause) policy.Clause {
				if x.Op == c.from {
					x.Op = c.to
				}
				return x
			}))
			require.Positive(t, differ)
		})
	}
	t.Run("!= that fails without the key", func(t *testing.T) {
		_, differ := differences(t, events, func(s policy.Selector, l policy.Labels) bool {
			holds := func(e policy.Expr) bool {
				for _, c := range e {
					if _, has := l.Get(c.Key); c.Op == policy.NotEqual && !has {
						return false
					}
				}
				return e.Matches(l)
			}
			return holds(s.Source) || holds(s.Destination)
		})
		require.Positive(t, differ)
	})
}
