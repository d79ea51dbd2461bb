package test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/oracle"
	"github.com/edictdev/edict/internal/test/plexd"
)

// employed is a node of a plane with an agent that follows it, and was not sent
// why the node has the rows that it has.
func (s *story) employed(node string, labels map[string]string, opt plexd.Options) *hand {
	s.t.Helper()
	s.label(node, labels)
	s.announced()
	opt.Terse = true
	h := s.hire(node, opt)
	h.await("it follows", func(c plexd.Counters) bool { return c.Connects() > 0 && c.Pulls > 0 })
	return h
}

// hears waits until the agent was sent that many things and has in place what the
// oracle wants.
func (s *story) hears(h *hand, events int) {
	s.t.Helper()
	h.await("it is sent", func(c plexd.Counters) bool { return c.Dispatched >= events })
	h.settles(&s.plane)
}

// of are the messages about a policy.
func (h *hand) of(policy string) []received {
	by, _, _ := h.heard()
	return by[policy]
}

// TestAnAgentOnAPlane has agents meet what is hard for them (plexsphere 8).
func TestAnAgentOnAPlane(t *testing.T) {
	s := &story{process: serve(t), policies: map[string]head{}}
	run := func(name string, f func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			whole := s.t
			s.t = t // whose end is that of its agents
			defer func() { s.t = whole }()
			f(t)
		})
	}
	role := func(name string) map[string]string { return map[string]string{"role": name} }

	run("1,024 rules come by one connection in one event", func(t *testing.T) {
		h := s.employed("large", role("large"), plexd.Options{})
		s.create("large", "role=large", "role=nobody", manyRules(1024))
		s.hears(h, 1)
		c := h.Counters()
		require.Equal(t, [3]int{1, 1, 0}, [3]int{c.Attempts, c.Dispatched, c.LongLines})
		require.Len(t, h.of(s.policies["large"].id), 1)
		require.Len(t, h.Applied().Ruleset, 1025)
	})

	run("a label that flips there and back leaves what was", func(t *testing.T) {
		s.create("flip", "role=flip", "role=nobody", []oracle.Rule{tcp(80)})
		h := s.employed("flip", role("flip"), plexd.Options{})
		h.settles(&s.plane)
		for i := range 3 {
			s.label("flip", role("away"))
			s.hears(h, 2*i+1)
			s.label("flip", role("flip"))
			s.hears(h, 2*i+2)
			all := h.of(s.policies["flip"].id)
			require.Len(t, all, 2*(i+1), "each flip is sent, however soon it comes")
			require.Equal(t, oracle.EmptyFingerprint, all[2*i].Fingerprint)
			require.Equal(t, oracle.Fingerprint(all[2*i+1].Rules), all[2*i+1].Fingerprint)
		}
		h.await("it counts what it has put in place", func(c plexd.Counters) bool { return c.Applied >= 7 })
		require.Equal(t, 7, h.Counters().Applied)
	})

	run("who leaves a selector is notified", func(t *testing.T) {
		s.create("narrow", "role=narrow", "role=nobody", []oracle.Rule{tcp(80)})
		h := s.employed("narrow", role("narrow"), plexd.Options{})
		h.settles(&s.plane)
		s.revise("narrow", "role=narrow,env=prod", "role=nobody", []oracle.Rule{tcp(80)})
		s.hears(h, 1)
		all := h.of(s.policies["narrow"].id)
		require.Len(t, all, 1)
		require.Equal(t, "[]", all[0].Rules)
		require.Equal(t, "T1PNoYwrqgwDVLtfmj7L5e0Sq02OEbqHPC8RFhICuUU=", all[0].Fingerprint)
	})

	run("a policy that is deleted and made anew is another", func(t *testing.T) {
		s.create("anew", "role=anew", "role=nobody", []oracle.Rule{tcp(80)})
		h := s.employed("anew", role("anew"), plexd.Options{})
		before := s.policies["anew"].id
		s.remove("anew")
		s.create("anew", "role=anew", "role=nobody", []oracle.Rule{tcp(80)})
		s.hears(h, 2)
		require.Equal(t, "[]", h.of(before)[0].Rules)
		require.Len(t, h.of(s.policies["anew"].id), 1)
	})

	run("policies of one node are one block", func(t *testing.T) {
		h := s.employed("both", role("both"), plexd.Options{})
		pass := func(slug string) {
			s.do("POST", "/v1/projects/"+defaultProject+"/policies", map[string]any{
				"slug": slug, "selector": map[string]string{"source": "role=both", "destination": "role=both"},
				"rules": []map[string]any{{"action": "pass", "protocol": "any", "source_cidr": "10.0.0.0/8", "destination_cidr": "10.0.0.0/8"}},
			}, 201)
		}
		for i, want := range []string{"T1PNoYwrqgwDVLtfmj7L5e0Sq02OEbqHPC8RFhICuUU=", "ghvwa03LQG6lCKSpkurcIvKYUM0gi6JK6nwpFI3ozPE="} {
			pass(fmt.Sprint("pass-", i)) // which no agent can say, so a payload is []
			h.await("it is sent", func(c plexd.Counters) bool { return c.Dispatched >= i+1 && c.Applied >= i+1 })
			require.Equal(t, want, h.Applied().Fingerprint)
		}
	})

	run("one rule of IPv6 freezes a node until it goes", func(t *testing.T) {
		s.create("old", "role=six", "role=nobody", []oracle.Rule{tcp(80)})
		h := s.employed("six", role("six"), plexd.Options{})
		h.settles(&s.plane)
		was := h.Applied()
		six := tcp(443)
		six.SourceCIDR, six.DestinationCIDR = "2001:db8::/32", "2001:db8:1::/48"
		s.create("six", "role=six", "role=nobody", []oracle.Rule{six})
		h.await("it refuses the set", func(c plexd.Counters) bool { return c.Rejected > 0 })
		require.Equal(t, was, h.Applied())
		s.remove("six")
		s.revise("old", "role=six", "role=nobody", []oracle.Rule{tcp(81)})
		h.await("it goes on", func(c plexd.Counters) bool { return c.Applied >= 2 })
		require.Equal(t, firewallOf(t, s.plane.Rows("six")), h.words())
	})

	run("a restarted agent begins at now and pulls", func(t *testing.T) {
		h := s.employed("anew-2", role("large"), plexd.Options{})
		h.end()
		s.revise("large", "role=large", "role=nobody", []oracle.Rule{tcp(1)})
		h = s.employed("anew-2", role("large"), plexd.Options{})
		h.settles(&s.plane)
		require.Zero(t, h.Counters().Dispatched)
		require.True(t, h.met().Sessions[0].Live)
	})
	run("an agent whose clock is wrong believes nothing, and pulls", func(t *testing.T) {
		slow := time.Now().Add(-6 * time.Minute)
		h := s.employed("slow", role("slow"), plexd.Options{Now: func() time.Time { return slow }, Periods: storyPeriods})
		s.create("slow", "role=slow", "role=nobody", []oracle.Rule{tcp(80)})
		h.await("it refuses what it is sent", func(c plexd.Counters) bool { return c.Early > 0 && c.Applied > 0 })
		h.await("the plane tells it so", func(c plexd.Counters) bool { return c.HeartbeatFailures > 0 }) // at its next heartbeat
		c := h.Counters()
		require.Equal(t, [3]int{0, 0, 0}, [3]int{c.Dispatched, c.Heartbeats, c.Forged})
	})

	run("a node that is not there leaves its agent deaf, and it asks for its state", func(t *testing.T) {
		h := s.hire("nobody", plexd.Options{Terse: true, Periods: plexd.Periods{Pull: 20 * time.Millisecond}})
		h.await("it gives the stream up", func(c plexd.Counters) bool { return c.Mode == plexd.Deaf && c.PullFailures > 1 })
		require.Equal(t, map[int]int{404: 1}, h.Counters().Answers)
		s.create("somebody", "role=somebody", "role=nobody", []oracle.Rule{tcp(80)})
		s.label("nobody", role("somebody"))
		h.await("it pulls", func(c plexd.Counters) bool { return c.Applied > 0 })
	})
	s.terminate()
}
