package test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/edictdev/edict/internal/test/oracle"
	"github.com/edictdev/edict/internal/test/watch"
	"github.com/edictdev/edict/policy"
)

// received is one message as a node got it, over either transport.
type received = watch.Frame

// ledger keeps what one node was sent and holds it against the promises: event ids
// that rise, none twice, nobody else's messages.
type ledger struct {
	node string

	mu     sync.Mutex
	at     policy.EventID
	held   map[string]received
	all    []received
	pulls  []policy.EventID // where it was asked to pull
	faults []string
}

func newLedger(node string) *ledger { return &ledger{node: node, held: map[string]received{}} }

func (l *ledger) fault(format string, args ...any) {
	l.faults = append(l.faults, "node "+l.node+": "+fmt.Sprintf(format, args...))
}

func (l *ledger) take(m received) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m.Node != l.node {
		l.fault("a message of %s at %d", m.Node, m.ID)
	}
	if m.ID < l.at || m.ID == l.at && !m.Pull { // a word to pull may carry the id it was resumed from
		l.fault("event %d after %d", m.ID, l.at)
	}
	l.at = m.ID
	if m.Pull {
		l.pulls = append(l.pulls, m.ID)
		return
	}
	if got := oracle.Fingerprint(m.Rules); got != m.Fingerprint {
		l.fault("policy %s at %d: the rules hash to %s, not to %s", m.Policy, m.ID, got, m.Fingerprint)
	}
	l.all = append(l.all, m)
	if m.Rules == "[]" && m.Omitted == 0 {
		delete(l.held, m.Policy)
	} else {
		l.held[m.Policy] = m
	}
}

// pulled replaces what is held by the rows of the read model.
func (l *ledger) pulled(rows map[string]received, at policy.EventID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = rows
	l.at = max(l.at, at)
}

func (l *ledger) cursor() policy.EventID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at
}

// differs says how what is held differs from what the oracle wants; "" is not.
func (l *ledger) differs(want []oracle.Row) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.faults) > 0 {
		return strings.Join(l.faults, "; ")
	}
	if len(want) != len(l.held) {
		return fmt.Sprintf("node %s holds %d rows, wants %d", l.node, len(l.held), len(want))
	}
	for _, w := range want {
		h, wants := l.held[w.Policy], w.Said
		if h.ID == 0 { // pulled: the row itself
			wants, w.Omitted = w.Payload, 0
		}
		if h.Rules != wants || h.Fingerprint != oracle.Fingerprint(wants) || h.Omitted != w.Omitted {
			return fmt.Sprintf("node %s policy %s: holds %.120s and %d left out, wants %.120s and %d", l.node, w.Policy, h.Rules, h.Omitted, wants, w.Omitted)
		}
	}
	return ""
}

// since lists what was sent above an event id, the newest of each policy only.
func (l *ledger) since(after policy.EventID) []received {
	newest := l.newest(func(id policy.EventID) bool { return id > after })
	return slices.SortedFunc(maps.Values(newest), func(a, b received) int { return cmp.Compare(a.ID, b.ID) })
}

// newest is the last that was sent of each policy under such ids.
func (l *ledger) newest(is func(policy.EventID) bool) map[string]received {
	l.mu.Lock()
	defer l.mu.Unlock()
	newest := map[string]received{}
	for _, m := range l.all {
		if is(m.ID) {
			newest[m.Policy] = m
		}
	}
	return newest
}

// holds reports whether a message says what the node has anyway.
func (l *ledger) holds(m received) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return sameRules(l.held[m.Policy], m)
}

// sameRules reports whether two messages about a policy say the same.
func sameRules(a, b received) bool { return a.Rules == b.Rules && a.Omitted == b.Omitted }

// unreadable notes a message at fault. Other errors are cuts.
func (l *ledger) unreadable(err error) {
	var frame *watch.FrameError
	if errors.As(err, &frame) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.fault("%v", err)
	}
}

// stream is watch.Stream of a node of this plane.
func stream(ctx context.Context, p *process, node, lastEventID string, keys map[string][]byte, f func(received) bool) error {
	return watch.Stream(ctx, http.DefaultClient, "http://"+p.http+"/v1/nodes/"+node+"/events", lastEventID, keys, f)
}

// followSSE keeps a ledger by SSE until ctx ends: it resumes after every cut, and
// pulls when it is asked to.
func followSSE(ctx context.Context, p *process, l *ledger, keys map[string][]byte) {
	for ctx.Err() == nil {
		pull := false
		err := stream(ctx, p, l.node, l.cursor().String(), keys, func(m received) bool {
			l.take(m)
			pull = m.Pull
			return !m.Pull
		})
		if pull {
			if rows, at, err := pullRows(p, l.node); err == nil {
				l.pulled(rows, at)
			}
		}
		l.unreadable(err)
		pauseFor(ctx, 20*time.Millisecond)
	}
}

// pullRows reads a node's rows, and the event id its stream goes on after.
func pullRows(p *process, node string) (rows map[string]received, at policy.EventID, err error) {
	resp, err := http.Get("http://" + p.http + "/v1/nodes/" + node + "/state")
	if err != nil {
		return nil, 0, err
	}
	resp.Body.Close()
	if at, err = policy.ParseEventID(resp.Header.Get("Edict-Event-Id")); err != nil {
		return nil, 0, err
	}
	resp, err = http.Get("http://" + p.http + "/v1/nodes/" + node + "/rulesets")
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	var list struct {
		Items []struct {
			PolicyID    string `json:"policy_id"`
			Fingerprint string `json:"fingerprint"`
			RulePayload string `json:"rule_payload"`
		} `json:"items"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		return nil, 0, err
	}
	rows = map[string]received{}
	for _, r := range list.Items {
		rows[r.PolicyID] = received{Node: node, Policy: r.PolicyID, Fingerprint: r.Fingerprint, Rules: r.RulePayload}
	}
	return rows, at, nil
}

func pauseFor(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// followNATS keeps a ledger as a native client does: live messages are a hint,
// and what it missed it asks for.
func followNATS(ctx context.Context, p *process, l *ledger, keys map[string][]byte) {
	again := make(chan struct{}, 1)
	knock := func() {
		select {
		case again <- struct{}{}:
		default:
		}
	}
	var nc *nats.Conn
	for nc == nil {
		var err error
		nc, err = nats.Connect("nats://"+p.nats, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond),
			nats.ReconnectJitter(0, 0), nats.ReconnectHandler(func(*nats.Conn) { knock() }))
		if err != nil && ctx.Err() != nil {
			return
		}
	}
	defer nc.Close()
	if _, err := nc.Subscribe("edict.node."+l.node+".>", func(*nats.Msg) { knock() }); err != nil {
		l.fault("%v", err)
		return
	}
	knock()
	for {
		select {
		case <-ctx.Done():
			return
		case <-again:
		case <-time.After(time.Second):
		}
		replayNATS(nc, p, l, keys)
	}
}

// replayNATS asks for everything after the ledger's cursor.
func replayNATS(nc *nats.Conn, p *process, l *ledger, keys map[string][]byte) {
	answer, err := watch.Replay(nc, l.node, l.cursor(), 2*time.Second, keys)
	for _, m := range answer.Frames {
		l.take(m)
	}
	l.unreadable(err)
	if err == nil && answer.Pull {
		if rows, at, err := pullRows(p, l.node); err == nil {
			l.pulled(rows, at)
		}
	}
}
