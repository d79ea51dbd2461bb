package test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/test/oracle"
	"github.com/edictdev/edict/test/plexd"
)

// hand is an agent of one node, and what it was told.
type hand struct {
	*plexd.Agent
	t    *testing.T
	node string

	mu     sync.Mutex
	events []plexd.Event
	faults []string
	end    func() // ends the agent
}

// hire starts an agent of a node of this plane. It ends with the test.
func (p *process) hire(node string, opt plexd.Options) *hand {
	p.t.Helper()
	h := &hand{t: p.t, node: node}
	opt.Base = func() string { return "http://" + p.http }
	opt.Transport = described
	opt.Dispatched = h.hear
	opt.Refused = func(id string, why error) { h.fault("%s is refused: %v", id, why) }
	if opt.Identity == nil && opt.Registration.Token == "" && opt.DataDir == "" {
		opt.Identity = p.acquainted(node)
	}
	a, err := plexd.New(opt)
	require.NoError(p.t, err)
	h.Agent = a
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	h.end = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			p.t.Errorf("the agent of %s: %v", node, err)
		}
	})
	p.t.Cleanup(h.end)
	return h
}

// acquainted is the identity of an agent that needs no credentials.
func (p *process) acquainted(node string) *plexd.Identity {
	p.t.Helper()
	for id, key := range p.publicKeys() {
		return &plexd.Identity{NodeID: node, SigningKeyID: id, SigningPublicKey: key}
	}
	p.t.Fatal("the plane has no key")
	return nil
}

func (h *hand) fault(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults = append(h.faults, "agent of "+h.node+": "+fmt.Sprintf(format, args...))
}

func (h *hand) hear(e plexd.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

// await waits until the agent's counters are as wanted.
func (h *hand) await(why string, wanted func(c plexd.Counters) bool) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	require.NoError(h.t, h.Await(ctx, wanted), "%s: %s: %+v", h.node, why, h.Counters())
}

// heard are the policy events since the first one, by policy.
func (h *hand) heard() (by map[string][]told, first uint64) {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	by = map[string][]told{}
	for _, e := range h.events {
		seq, err := strconv.ParseUint(e.Cursor, 10, 64)
		require.NoError(h.t, err)
		if first == 0 {
			first = seq
		}
		if e.Type != "policy_updated" {
			continue
		}
		var p struct {
			PolicyID    string `json:"policy_id"`
			NodeID      string `json:"node_id"`
			Fingerprint string `json:"fingerprint"`
		}
		require.NoError(h.t, json.Unmarshal(e.Payload, &p))
		by[p.PolicyID] = append(by[p.PolicyID], told{Seq: seq, Node: p.NodeID, Policy: p.PolicyID, Fingerprint: p.Fingerprint})
	}
	return by, first
}

// differs says how what the agent has in place differs from what the oracle
// wants, or what it should not have met; "" when all is well.
func (h *hand) differs(plane *oracle.Plane) string {
	h.mu.Lock()
	faults := strings.Join(h.faults, "; ")
	h.mu.Unlock()
	c, done := h.Counters(), h.Applied()
	want, block := firewallOf(h.t, plane.Rows(h.node)), unrevised(plane.Block(h.node))
	got := unrevised("null")
	if done.Policy != nil {
		got = unrevised(string(done.Policy))
	}
	var words []string
	for _, r := range done.Ruleset {
		words = append(words, r.String())
	}
	switch {
	case faults != "":
		return faults
	case c.Refused()+c.Foreign+c.LongLines+c.Rejected > 0 || c.Mode == plexd.Deaf || c.Mode == plexd.PullOnly:
		return fmt.Sprintf("agent of %s: %+v", h.node, c)
	case got != block:
		return fmt.Sprintf("agent of %s has %.300s in place, wants %.300s", h.node, got, block)
	case words != nil && strings.Join(words, "\n") != strings.Join(want, "\n"):
		return fmt.Sprintf("agent of %s enforces %.300v, wants %.300v", h.node, words, want)
	}
	return ""
}

// unrevised is a block without its revision: an agent does not apply what has
// another one and the same fingerprint.
func unrevised(block string) string {
	_, rest, _ := strings.Cut(block, `"fingerprint"`)
	return rest
}

// settles waits until nothing differs.
func (h *hand) settles(plane *oracle.Plane) {
	h.t.Helper()
	last := ""
	ok := waitFor(20*time.Second, func() bool { last = h.differs(plane); return last == "" })
	require.True(h.t, ok, last)
}

// missed wants the agent to have been told, since its first event, what the
// ledger was told of each policy last, and nothing twice.
func (h *hand) missed(l *ledger) {
	h.t.Helper()
	var by map[string][]told
	last := ""
	ok := waitFor(20*time.Second, func() bool {
		var first uint64
		last = ""
		by, first = h.heard()
		for _, m := range l.since(max(first, 1) - 1) {
			if all := by[m.Policy]; first > 0 && (len(all) == 0 || all[len(all)-1].Seq != m.Seq) {
				last = fmt.Sprintf("the agent of %s is not told %d about %s", h.node, m.Seq, m.Policy)
			}
		}
		return last == ""
	})
	require.True(h.t, ok, last)
	for _, all := range by {
		for i, m := range all {
			require.Equal(h.t, h.node, m.Node)
			require.True(h.t, i == 0 || m.Seq > all[i-1].Seq, "%d after %d", m.Seq, all[max(i, 1)-1].Seq)
		}
	}
}

// firewallOf is what the current dialect makes of rows, in words: IPv4 rules in
// their order, log left out, and all else denied.
func firewallOf(t *testing.T, rows []oracle.Row) (words []string) {
	for _, row := range rows {
		var rules []oracle.Rule
		require.NoError(t, json.Unmarshal([]byte(row.Said), &rules))
		for _, r := range rules {
			if r.Action == "log" {
				continue
			}
			word := fmt.Sprintf("%s %s %s %s", r.Action, r.Protocol, r.SourceCIDR, r.DestinationCIDR)
			switch {
			case r.Ports == nil:
			case r.Ports.From == r.Ports.To:
				word += fmt.Sprintf(" %d", r.Ports.From)
			default:
				word += fmt.Sprintf(" %d-%d", r.Ports.From, r.Ports.To)
			}
			words = append(words, word)
		}
	}
	return append(words, "deny any 0.0.0.0/0 0.0.0.0/0")
}
