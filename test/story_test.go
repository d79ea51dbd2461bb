package test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/oracle"
	"github.com/edictdev/edict/internal/test/plexd"
	"github.com/edictdev/edict/policy"
)

// story drives one plane and, beside it, the oracle.
type story struct {
	*process
	plane    oracle.Plane
	policies map[string]head // by slug
	keys     map[string][]byte
	sse      map[string]*ledger
	native   map[string]*ledger
	agents   []*hand
}

type head struct{ id, revision string }

var storyNodes = map[string]map[string]string{
	"web-1": {"role": "web", "env": "prod"}, "web-2": {"role": "web", "env": "test"}, "web-3": {"role": "web"},
	"db-1": {"role": "db", "env": "prod"}, "db-2": {"role": "db", "env": "test"}, "idle": {},
	currentNode: {"role": "web", "env": "prod"}, legacyNode: {"role": "web", "env": "test"},
}

// create and revise send what the API takes and tell the oracle what it answers.
func (s *story) create(slug, source, destination string, rules []oracle.Rule) {
	s.t.Helper()
	var body oracle.Body
	body.Selector.Source, body.Selector.Destination, body.Rules = source, destination, rules
	s.learn(slug, body, s.do("POST", "/v1/projects/"+defaultProject+"/policies", map[string]any{
		"slug": slug, "display_name": slug, "selector": body.Selector, "rules": spelled(rules),
	}, 201))
}

func (s *story) revise(slug, source, destination string, rules []oracle.Rule) {
	s.t.Helper()
	var body oracle.Body
	body.Selector.Source, body.Selector.Destination, body.Rules = source, destination, rules
	s.learn(slug, body, s.do("PATCH", "/v1/projects/"+defaultProject+"/policies/"+s.policies[slug].id, map[string]any{
		"selector": body.Selector, "rules": spelled(rules), "expected_revision_id": s.policies[slug].revision,
	}, 200))
}

func (s *story) learn(slug string, body oracle.Body, answer []byte) {
	s.t.Helper()
	var p struct {
		ID   string `json:"id"`
		Head struct {
			ID string `json:"id"`
		} `json:"head"`
	}
	require.NoError(s.t, json.Unmarshal(answer, &p))
	s.policies[slug] = head{p.ID, p.Head.ID}
	require.NoError(s.t, s.plane.SetPolicy(defaultProject, p.ID, p.Head.ID, body))
}

func (s *story) remove(slug string) {
	s.t.Helper()
	s.do("DELETE", "/v1/projects/"+defaultProject+"/policies/"+s.policies[slug].id, nil, 204)
	s.plane.DeletePolicy(s.policies[slug].id)
}

func (s *story) label(node string, labels map[string]string) {
	s.t.Helper()
	status := 200
	if _, known := s.plane.State(node); !known {
		status = 201
	}
	s.do("PUT", "/v1/projects/"+defaultProject+"/nodes/"+node, map[string]any{"labels": labels, "addresses": []string{}}, status)
	s.plane.SetNode(defaultProject, node, labels)
}

// spelled is rules as JSON has them, without ports where there are none.
func spelled(rules []oracle.Rule) []map[string]any {
	out := []map[string]any{}
	for _, r := range rules {
		m := map[string]any{"action": r.Action, "protocol": r.Protocol, "source_cidr": r.SourceCIDR, "destination_cidr": r.DestinationCIDR}
		if r.Ports != nil {
			m["ports"] = r.Ports
		}
		out = append(out, m)
	}
	return out
}

func tcp(port int) oracle.Rule {
	r := oracle.Rule{Action: "allow", Protocol: "tcp", SourceCIDR: "10.0.0.0/8", DestinationCIDR: "10.1.0.0/16"}
	r.Ports = &struct {
		From int `json:"from"`
		To   int `json:"to"`
	}{port, port}
	return r
}

func manyRules(n int) []oracle.Rule {
	rules := make([]oracle.Rule, n)
	for i := range rules {
		rules[i] = tcp(1 + i)
		rules[i].DestinationCIDR = fmt.Sprintf("10.%d.%d.0/24", i/256, i%256)
	}
	return rules
}

// settled waits until every node, over both transports, holds what the oracle
// wants, and checks that its state is that to the byte.
func (s *story) settled() {
	s.t.Helper()
	for node := range storyNodes {
		want := s.plane.Rows(node)
		for over, l := range map[string]*ledger{"SSE": s.sse[node], "NATS": s.native[node]} {
			last := ""
			ok := l == nil || waitFor(20*time.Second, func() bool { last = l.differs(want); return last == "" })
			require.True(s.t, ok, "over %s: %s", over, last)
		}
		body, known := s.plane.State(node)
		require.True(s.t, known)
		got, _ := s.state(node)
		require.Equal(s.t, body, got, "state of %s", node)
	}
	for _, h := range s.agents {
		h.settles(&s.plane)
		h.missed(s.native[h.node])
	}
}

// waitFor asks at once, then more and more rarely: most questions are one to a plane.
func waitFor(limit time.Duration, ok func() bool) bool {
	pause := 2 * time.Millisecond
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(pause) {
		if ok() {
			return true
		}
		pause = min(pause*3/2, 30*time.Millisecond)
	}
	return ok()
}

// resumes opens a second stream after a cursor and wants what the first one was
// sent since: the newest message of each policy. Between these it may be sent again
// what the node has, and nothing else.
func (s *story) resumes(node string, cursor policy.EventID) {
	s.t.Helper()
	want := s.sse[node].since(cursor)
	if len(want) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var got []received
	err := stream(ctx, s.process, node, cursor.String(), s.keys, func(m received) bool {
		got = append(got, m)
		return m.ID < want[len(want)-1].ID
	})
	require.NoError(s.t, err)
	got = slices.DeleteFunc(got, func(m received) bool {
		return !slices.ContainsFunc(want, func(w received) bool { return w.ID == m.ID }) && s.sse[node].holds(m)
	})
	require.Equal(s.t, want, got, "%s resumes after %d", node, cursor)
}

// storyPeriods have agents cut their streams while the story goes on, and come
// back sooner than in the field once the plane does.
var storyPeriods = plexd.Periods{Stream: 600 * time.Millisecond, BackoffMin: 10 * time.Millisecond, BackoffMax: 40 * time.Millisecond}

// follows starts the agent of a node: of two nodes one that registers, in either
// dialect, and of the others one that is known.
func (s *story) follows(node string) *hand {
	s.t.Helper()
	opt := plexd.Options{Terse: true, Periods: storyPeriods}
	switch node {
	case currentNode:
		opt.Registration = s.bootstrap(node)
	case legacyNode:
		opt.Registration, opt.Dialect, opt.Handlers = s.bootstrap(node), plexd.Legacy, true
		opt.Periods.Pull = time.Second // it does not pull on connecting, so before its first event it may miss one
	}
	return s.hire(node, opt)
}

// TestTheStory takes a plane through the life of its policies and kills it
// between any two steps, right after the write was acknowledged. Every node
// follows over SSE, over NATS and by an agent of its own through all of it.
func TestTheStory(t *testing.T) {
	t.Parallel()
	s := &story{process: serve(t), policies: map[string]head{}, sse: map[string]*ledger{}, native: map[string]*ledger{}}
	s.keys = s.publicKeys()
	steps := []struct {
		name string
		do   func()
	}{
		{"register the nodes", func() {
			for _, id := range slices.Sorted(maps.Keys(storyNodes)) {
				s.label(id, storyNodes[id])
			}
		}},
		{"create a policy", func() { s.create("web", "role=web", "role=nobody", []oracle.Rule{tcp(80), tcp(443)}) }},
		{"narrow its selector", func() { s.revise("web", "role=web,env=prod", "role=nobody", []oracle.Rule{tcp(80), tcp(443)}) }},
		{"widen it with other rules", func() { s.revise("web", "role=web", "role=db", []oracle.Rule{tcp(8443)}) }},
		{"flip a label there and back within two seconds", func() {
			s.label("web-1", map[string]string{"role": "cache"})
			s.label("web-1", storyNodes["web-1"])
		}},
		{"put a second policy on the same nodes", func() { s.create("audit", "env=prod", "env in (prod, test)", []oracle.Rule{tcp(9000)}) }},
		{"publish 1,024 rules", func() { s.create("large", "role=web", "!role", manyRules(1024)) }},
		{"revise to the same rules in another order", func() {
			rules := manyRules(1024)
			slices.Reverse(rules)
			s.revise("large", "role=web", "!role", rules)
		}},
		{"relabel a node away", func() { s.label("web-2", map[string]string{"role": "db", "env": "test"}) }},
		{"delete a policy", func() { s.remove("web") }},
		{"create it anew under the same slug", func() { s.create("web", "role!=db", "role=db", []oracle.Rule{tcp(22)}) }},
		{"delete the large one", func() { s.remove("large") }},
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	followers := 0
	kills := 0
	for i, step := range steps {
		t.Logf("step %d: %s", i+1, step.name)
		cursors := map[string]policy.EventID{}
		for node, l := range s.sse {
			cursors[node] = l.cursor()
		}
		step.do()
		if i == 0 {
			for node := range storyNodes {
				native := newLedger(node)
				s.native[node] = native
				followers++
				go func() { followNATS(ctx, s.process, native, s.keys); done <- struct{}{} }()
				if node != legacyNode { // whose stream only its agent reads
					sse := newLedger(node)
					s.sse[node] = sse
					followers++
					go func() { followSSE(ctx, s.process, sse, s.keys); done <- struct{}{} }()
				}
				s.agents = append(s.agents, s.follows(node))
			}
			for _, h := range s.agents {
				h.await("it follows", func(c plexd.Counters) bool { return c.Connects() > 0 && c.Pulls > 0 })
			}
		}
		if i+1 < len(steps) {
			s.kill()
			kills++
			t.Logf("kill -9 between step %d and step %d", i+1, i+2)
			s.start()
		}
		s.settled()
		for node, cursor := range cursors {
			s.resumes(node, cursor)
		}
	}
	require.Equal(t, len(steps)-1, kills, "a pair of steps lacks its kill")
	cancel()
	for range followers {
		<-done
	}
	for _, h := range s.agents {
		h.end()
		t.Logf("%s: %+v", h.node, h.Counters())
	}
	s.terminate()
}
