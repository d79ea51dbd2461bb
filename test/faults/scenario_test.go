package faults

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/check"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/policy"
)

// cast says what the stage is.
type cast string

const (
	alone cast = "one worker"
	rival cast = "two workers that publish every partition, both"
	brief cast = "one worker that keeps little of the past"
	tight cast = "one worker whose hub has room for next to nothing"
)

// steps is a history of a seed in which watched nodes never leave, and which
// ends with what random histories rarely do.
func steps(seed uint64) []gen.Step {
	g := gen.New(seed)
	all := g.WithRollouts(g.History(g.World(7, 5), 60))
	for i := range all {
		if all[i].Kind == gen.Remove { // it would answer 404 from now on
			all[i] = register(all[i].Node.ID, "")
		}
	}
	policy := func(kind gen.Kind, slug, role string) gen.Step {
		p := g.Policy(slug)
		p.Selector = gen.Selector{Source: "role=" + role, Destination: "role=nobody"}
		return gen.Step{Kind: kind, Slug: slug, Policy: p}
	}
	end := []gen.Step{
		register("gone", "late"), register("node-0", "late"), policy(gen.Create, "late-1", "late"), policy(gen.Create, "late-2", "late"), policy(gen.Create, "late-3", "late"),
		register("node-1", "late"),
		{Kind: gen.Remove, Node: gen.Node{ID: "gone"}},
		{Kind: gen.Delete, Slug: "late-1"},
		{Kind: gen.Delete, Slug: "late-2"},
		register("node-2", "late"), register("node-3", "late"),
	}
	return append(all, end...)
}

// finale is what everybody misses at once in the end: a row, a revision that
// tells nobody, a narrowed selector, a deletion, other labels.
func finale(seed uint64, nodes []string) (before, missed []gen.Step) {
	g := gen.New(seed + 1)
	policy := func(kind gen.Kind, slug, source string, p gen.Policy) gen.Step {
		p.Selector = gen.Selector{Source: source, Destination: "role=nobody"}
		return gen.Step{Kind: kind, Slug: slug, Policy: p}
	}
	for _, n := range nodes {
		before = append(before, register(n, "end"))
	}
	kept, narrowed, left := g.Policy("end-1"), g.Policy("end-2"), g.Policy("end-3")
	renamed := kept
	renamed.DisplayName += "!"
	before = append(before, policy(gen.Create, "end-2", "role", narrowed), policy(gen.Create, "end-3", "role=end", left), policy(gen.Create, "end-5", "role", left))
	missed = append(missed, policy(gen.Create, "end-1", "role", kept), policy(gen.Revise, "end-1", "role", renamed),
		policy(gen.Create, "end-4", "role", left), policy(gen.Revise, "end-2", "role=none", narrowed), gen.Step{Kind: gen.Delete, Slug: "end-5"})
	for _, n := range nodes {
		missed = append(missed, register(n, "over"))
	}
	return before, missed
}

func register(node, role string) gen.Step {
	labels := map[string]string{}
	if role != "" {
		labels["role"] = role
	}
	return gen.Step{Kind: gen.Register, Node: gen.Node{ID: node, Labels: labels, Addresses: []string{}}}
}

// stage is a scenario that is being played.
type stage struct {
	*plane
	r       *rand.Rand
	servers []*worker
	watched []string
	sse     []*follower
	native  []*follower
	hearing time.Duration
	mutated bool
	at      uint64
}

// scenario plays a history of a seed on a real server and records it. Nodes
// follow over SSE and NATS; streams are cut and resumed. mutated: a node may
// never hear what it must, and is not waited for.
func scenario(t *testing.T, seed uint64, with cast, mutated bool) []check.Violation {
	t.Helper()
	s := &stage{plane: newPlane(t, seed), r: rand.New(rand.NewPCG(seed, 1)), hearing: patience, mutated: mutated}
	if mutated {
		s.hearing = 100 * time.Millisecond
	}
	history := steps(seed)
	s.watched = slices.DeleteFunc(nodesOf(history), func(n string) bool { return n == "gone" })

	// Half of the history is there before anything is sent.
	half := len(history) / 2
	s.at = s.publish(history[:half]...)
	for _, n := range s.watched { // whoever was not born yet is now
		if !slices.ContainsFunc(history[:half], func(s gen.Step) bool { return s.Node.ID == n }) {
			s.at = s.publish(register(n, ""))
		}
	}
	s.open(with)
	for rest := history[half:]; len(rest) > 0; {
		n := min(len(rest), 3+s.r.IntN(9))
		s.play(rest[:n])
		rest = rest[n:]
	}
	before, missed := finale(seed, s.watched)
	s.at = s.publish(before...)
	s.heard()
	s.cutAll()
	s.at = s.publish(missed...)
	s.quiet()
	for i, f := range s.sse {
		f.open(t.Context(), s.servers[i%len(s.servers)], s.servers[i%len(s.servers)].http.URL)
		s.native[i].ask(s.servers[0])
	}
	s.edges()
	s.heard()
	s.cutAll()
	for i, w := range s.servers {
		w.finish(fmt.Sprint("worker ", i+1), s.watched)
	}
	for _, w := range s.servers {
		w.stop()
	}
	return s.verdict()
}

// open starts the workers, and the clients.
func (s *stage) open(with cast) {
	draw := rand.New(rand.NewPCG(s.r.Uint64(), 9))
	as := casting{cut: func() int { return 1 + draw.IntN(3) }}
	switch with {
	case brief:
		as.past = 4 << 10
	case tight:
		as.hub = 1
	}
	s.servers = append(s.servers, s.start(s.t.TempDir(), as))
	if with == rival {
		s.servers = append(s.servers, s.start(s.t.TempDir(), casting{}))
	}
	s.quiet()
	for i, n := range s.watched {
		s.sse = append(s.sse, s.follower(n))
		s.native = append(s.native, s.follower(n))
		w := s.servers[i%len(s.servers)]
		s.sse[i].open(s.t.Context(), w, w.http.URL)
	}
}

// play publishes a few steps while one stream may be cut.
func (s *stage) play(some []gen.Step) {
	cut := s.sse[s.r.IntN(len(s.sse))]
	if s.r.IntN(2) == 0 {
		cut.cut()
	}
	s.at = s.publish(some...)
	s.quiet()
	if cut.cancel == nil {
		w := s.servers[s.r.IntN(len(s.servers))]
		cut.open(s.t.Context(), w, w.http.URL)
	}
	for i, f := range s.native {
		f.ask(s.servers[i%len(s.servers)])
	}
	s.heard()
}

// quiet waits until everything is folded and published.
func (s *stage) quiet() {
	s.eventually("everything is sent", func() bool {
		return !slices.ContainsFunc(s.servers, func(w *worker) bool { return !w.announced(s.at) })
	})
}

// heard waits until every stream has the last word about its node.
func (s *stage) heard() {
	for _, f := range s.sse {
		ok := f.cancel == nil || within(s.hearing, func() bool { return s.hasHeard(f) })
		require.True(s.t, ok || s.mutated, "%s does not hear the last word about it", f.Node)
	}
}

func (s *stage) cutAll() {
	for _, f := range slices.Concat(s.sse, s.followers) {
		f.cut()
	}
}

// edges has a client of each node resume from where the kept past ends, and
// from in it.
func (s *stage) edges() {
	w := s.servers[0]
	from := w.store.PastStatus().From
	if from == 0 {
		return
	}
	for _, n := range s.watched {
		for _, after := range []policy.EventID{policy.EndOf(s.run.Base, from), policy.NewEventID(s.run.Base, from, 0), policy.EndOf(s.run.Base, from-1)} {
			f := s.from(n, after)
			f.open(s.t.Context(), w, w.http.URL)
			within(s.hearing, func() bool { _, frames := f.At(); return frames > 0 })
		}
	}
}

func nodesOf(history []gen.Step) []string {
	names := map[string]bool{}
	for _, s := range history {
		if s.Node.ID != "" {
			names[s.Node.ID] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}
