package test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/oracle"
	"github.com/edictdev/edict/internal/test/plexd"
	"github.com/edictdev/edict/internal/test/watch"
	"github.com/edictdev/edict/policy"
)

// hand is an agent of one node, and what it was sent.
type hand struct {
	*plexd.Agent
	t     *testing.T
	node  string
	base  func() string
	token string // that it registers with

	mu       sync.Mutex
	sessions []watch.Session
	faults   []string
	end      func() // ends the agent
}

// hire starts an agent of a node; it ends with the test. base is where the plane
// is now.
func hire(t *testing.T, node string, base func() string, opt plexd.Options) *hand {
	t.Helper()
	h := &hand{t: t, node: node, base: base, token: opt.Registration.Token}
	opt.Base, opt.Transport = base, described
	opt.Connected, opt.Dispatched = h.connected, h.dispatched
	opt.Refused = func(id string, why error) {
		if !errors.Is(why, plexd.ErrLate) {
			h.fault("%s is refused: %v", id, why)
		}
	}
	a, err := plexd.New(opt)
	require.NoError(t, err)
	h.Agent = a
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	h.end = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the agent of %s: %v", node, err)
		}
	})
	t.Cleanup(h.end)
	return h
}

// hire starts an agent of a node of this plane.
func (p *process) hire(node string, opt plexd.Options) *hand {
	p.t.Helper()
	if opt.Identity == nil && opt.Registration.Token == "" && opt.DataDir == "" {
		opt.Identity = acquainted(node, p.publicKeys())
	}
	return hire(p.t, node, func() string { return "http://" + p.http }, opt)
}

// acquainted is the identity of an agent that needs no credentials.
func acquainted(node string, keys map[string][]byte) *plexd.Identity {
	for id, key := range keys {
		return &plexd.Identity{NodeID: node, SigningKeyID: id, SigningPublicKey: key}
	}
	return nil
}

func (h *hand) fault(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults = append(h.faults, "agent of "+h.node+": "+fmt.Sprintf(format, args...))
}

// connected begins a session.
func (h *hand) connected(lastEventID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	after, _ := policy.ParseEventID(lastEventID) // dispatched saw to it
	h.sessions = append(h.sessions, watch.Session{Over: "an agent's", After: after, Live: lastEventID == ""})
}

// dispatched notes an event of policies, or the word to pull.
func (h *hand) dispatched(e plexd.Event) {
	f, ok, err := frameOf(h.node, e)
	if !ok {
		return
	}
	if err != nil {
		h.fault("%s %s at %s: %v", e.Type, e.ID, e.Cursor, err)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &h.sessions[len(h.sessions)-1]
	s.Frames = append(s.Frames, f)
}

// frameOf reads an event; ok is false for one that tells neither.
func frameOf(node string, e plexd.Event) (f received, ok bool, err error) {
	if f.ID, err = policy.ParseEventID(e.Cursor); err != nil {
		return f, true, err
	}
	switch e.Type {
	case "node_state_updated":
		f.Node, f.Pull = node, true
		return f, true, nil
	case "policy_updated":
	default:
		return f, false, nil
	}
	var p struct {
		NodeID      string          `json:"node_id"`
		PolicyID    string          `json:"policy_id"`
		RevisionID  string          `json:"revision_id"`
		Fingerprint string          `json:"fingerprint"`
		Rules       json.RawMessage `json:"rules"`
		Omitted     int             `json:"rules_omitted"`
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return f, true, err
	}
	var rules bytes.Buffer
	if err := json.Compact(&rules, p.Rules); err != nil {
		return f, true, err
	}
	if e.ID != p.NodeID+"."+e.Cursor || p.RevisionID == "" {
		return f, true, fmt.Errorf("payload %.200s", e.Payload)
	}
	f.Node, f.Policy, f.Revision, f.Fingerprint, f.Rules, f.Omitted = p.NodeID, p.PolicyID, p.RevisionID, p.Fingerprint, rules.String(), p.Omitted
	return f, true, nil
}

// met is what the agent was sent, session by session.
func (h *hand) met() watch.Record {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := watch.Record{Node: h.node, Sessions: slices.Clone(h.sessions)}
	for _, f := range h.faults {
		w.Sessions = append(w.Sessions, watch.Session{Over: "an agent's", Live: true, Broken: f})
	}
	return w
}

// await waits until the agent's counters are as wanted.
func (h *hand) await(why string, wanted func(c plexd.Counters) bool) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	require.NoError(h.t, h.Await(ctx, wanted), "%s: %s: %+v", h.node, why, h.Counters())
}

// heard are the messages since the first one, by policy, and where that was.
func (h *hand) heard() (by map[string][]received, first, last policy.EventID) {
	by = map[string][]received{}
	for _, s := range h.met().Sessions {
		for _, m := range s.Frames {
			if first == 0 {
				first = m.ID
			}
			last = m.ID
			if !m.Pull {
				by[m.Policy] = append(by[m.Policy], m)
			}
		}
	}
	return by, first, last
}

// differs says how what the agent has in place differs from the rules and the block that
// an oracle wants, or what it should not have met; "" when all is well.
func (h *hand) differs(want []string, block string) string {
	h.mu.Lock()
	faults := strings.Join(h.faults, "; ")
	h.mu.Unlock()
	c, done := h.Counters(), h.Applied()
	got := unrevised("null")
	if done.Policy != nil {
		got = unrevised(string(done.Policy))
	}
	words := h.words()
	switch {
	case faults != "":
		return faults
	case c.Refused()+c.Foreign+c.LongLines+c.Rejected > 0 || c.Mode == plexd.Deaf || c.Mode == plexd.PullOnly:
		return fmt.Sprintf("agent of %s: %+v", h.node, c)
	case got != block:
		return fmt.Sprintf("agent of %s has %.300s in place, wants %.300s; %+v", h.node, got, block, c)
	case words != nil && strings.Join(words, "\n") != strings.Join(want, "\n"):
		return fmt.Sprintf("agent of %s enforces %.300v, wants %.300v", h.node, words, want)
	}
	return ""
}

// words are the rules that the agent enforces.
func (h *hand) words() (words []string) {
	for _, r := range h.Applied().Ruleset {
		words = append(words, r.String())
	}
	return words
}

// unrevised is a block without its revision: an agent does not apply what has
// another one and the same fingerprint.
func unrevised(block string) string {
	_, rest, _ := strings.Cut(block, `"fingerprint"`)
	return rest
}

// wanted are the rules and the block that the node is to have.
func (h *hand) wanted(plane *oracle.Plane) (words []string, block string) {
	return firewallOf(h.t, plane.Rows(h.node)), unrevised(plane.Block(h.node))
}

// settles waits until nothing differs.
func (h *hand) settles(plane *oracle.Plane) {
	h.t.Helper()
	last := ""
	want, block := h.wanted(plane)
	ok := waitFor(20*time.Second, func() bool { last = h.differs(want, block); return last == "" })
	require.True(h.t, ok, last)
}

// missed wants the agent to have been sent what it lacks, and nothing twice.
func (h *hand) missed(l *ledger) {
	h.t.Helper()
	last := ""
	ok := waitFor(20*time.Second, func() bool { last = h.lacks(l); return last == "" })
	require.True(h.t, ok, "%s: %+v, %+v", last, h.met(), h.Counters())
	by, _, _ := h.heard()
	for _, all := range by {
		for i, m := range all {
			require.Equal(h.t, h.node, m.Node)
			require.True(h.t, i == 0 || m.ID > all[i-1].ID, "%v", all)
		}
	}
}

// lacks says what the agent was not sent, since its first event, that the ledger was
// sent of each policy last; "" when nothing. What it has it need not be sent again: what
// was sent, and what it had pulled before that event, when it was not sent anything yet.
func (h *hand) lacks(l *ledger) (last string) {
	by, first, _ := h.heard()
	if first == 0 {
		return ""
	}
	pulled := l.newest(func(id policy.EventID) bool { return id < first })
	for _, m := range l.since(first - 1) {
		has := pulled[m.Policy]
		if all := by[m.Policy]; len(all) > 0 {
			has = all[len(all)-1]
		}
		if has.ID < m.ID && (has.ID == 0 || !sameRules(m, has)) {
			last = fmt.Sprintf("the agent of %s is not sent %d about %s", h.node, m.ID, m.Policy)
		}
	}
	return last
}

// An agent that was sent its first event late has pulled what was told before.
func TestWhatAnAgentHasItNeedNotBeSent(t *testing.T) {
	about := func(policy string, id policy.EventID, rules string) received {
		return received{Policy: policy, ID: id, Rules: rules}
	}
	h := &hand{t: t, node: "n", sessions: []watch.Session{{Frames: []received{about("second", 7, "b"), about("third", 9, "[]")}}}}
	told := []received{about("first", 4, "a"), about("second", 7, "b"), about("first", 8, "a"), about("third", 9, "[]")}
	require.Empty(t, h.lacks(&ledger{all: told}), "a label gave the first a new id")
	require.Contains(t, h.lacks(&ledger{all: append(told, about("first", 10, "c"))}), "not sent 10 about first")
	require.Contains(t, h.lacks(&ledger{all: append(told, about("second", 10, "[]"))}), "not sent 10 about second")
	require.Contains(t, h.lacks(&ledger{all: append(told, about("fourth", 10, "d"))}), "not sent 10 about fourth")
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
