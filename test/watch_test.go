package test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/edictdev/edict/test/oracle"
)

// told is one message as a node got it, over either transport.
type told struct {
	seq         uint64 // of the node stream
	version     uint64 // of the log
	policy      string
	fingerprint string
	rules       string
	pull        bool // the word to pull
}

// ledger keeps what one node was told and holds it against the promises: rising
// sequences, none twice, versions that never fall, nobody else's messages.
type ledger struct {
	node string

	mu       sync.Mutex
	seq      uint64
	versions map[string]uint64
	held     map[string]told
	all      []told
	pulls    []uint64 // where it was told to pull
	faults   []string
}

func newLedger(node string) *ledger {
	return &ledger{node: node, versions: map[string]uint64{}, held: map[string]told{}}
}

func (l *ledger) fault(format string, args ...any) {
	l.faults = append(l.faults, "node "+l.node+": "+fmt.Sprintf(format, args...))
}

func (l *ledger) take(m told) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m.seq < l.seq || m.seq == l.seq && !m.pull { // a word to pull may carry the id it was resumed from
		l.fault("sequence %d after %d", m.seq, l.seq)
	}
	l.seq = m.seq
	if m.pull {
		l.pulls = append(l.pulls, m.seq)
		return
	}
	if v := l.versions[m.policy]; m.version <= v {
		l.fault("policy %s: version %d after %d", m.policy, m.version, v)
	}
	l.versions[m.policy] = m.version
	if got := oracle.Fingerprint(m.rules); got != m.fingerprint {
		l.fault("policy %s version %d: the rules hash to %s, not to %s", m.policy, m.version, got, m.fingerprint)
	}
	l.all = append(l.all, m)
	if m.rules == "[]" {
		delete(l.held, m.policy)
	} else {
		l.held[m.policy] = m
	}
}

// pulled replaces what is held by the rows of the read model.
func (l *ledger) pulled(rows map[string]told, seq uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = rows
	l.seq = max(l.seq, seq)
}

func (l *ledger) cursor() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seq
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
		if h := l.held[w.Policy]; h.rules != w.Payload || h.fingerprint != w.Fingerprint {
			return fmt.Sprintf("node %s policy %s: holds %.120s, wants %.120s", l.node, w.Policy, h.rules, w.Payload)
		}
	}
	return ""
}

// since lists what was told above seq, the newest of each policy only.
func (l *ledger) since(seq uint64) []told {
	l.mu.Lock()
	defer l.mu.Unlock()
	newest := map[string]told{}
	for _, m := range l.all {
		if m.seq > seq {
			newest[m.policy] = m
		}
	}
	return slices.SortedFunc(maps.Values(newest), func(a, b told) int { return cmp.Compare(a.seq, b.seq) })
}

// pulledFrom reports whether the node was told to pull at or above seq.
func (l *ledger) pulledFrom(seq uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.pulls, func(at uint64) bool { return at >= seq })
}

// payload is what a message tells about one row.
type payload struct {
	NodeID      string          `json:"node_id"`
	PolicyID    string          `json:"policy_id"`
	RevisionID  string          `json:"revision_id"`
	Fingerprint string          `json:"fingerprint"`
	Rules       json.RawMessage `json:"rules"`
}

// notice is the event envelope of SSE. Its signed bytes are the fields but the
// signature, in this order, as encoding/json prints them.
type notice struct {
	ID        string          `json:"id"`
	Type      string          `json:"type"`
	Scope     string          `json:"scope"`
	KeyID     string          `json:"key_id"`
	IssuedAt  time.Time       `json:"issued_at"`
	Payload   json.RawMessage `json:"payload"`
	Signature []byte          `json:"signature,omitempty"`
}

func readNotice(data []byte, node string, keys map[string][]byte) (m told, err error) {
	var n notice
	if err := json.Unmarshal(data, &n); err != nil {
		return m, err
	}
	signature := n.Signature
	n.Signature = nil
	signed, err := json.Marshal(n)
	if err != nil {
		return m, err
	}
	if !verifies(keys[n.KeyID], signed, signature) {
		return m, fmt.Errorf("signature of %s does not verify", n.ID)
	}
	if age := time.Since(n.IssuedAt); age > time.Minute || age < -time.Minute {
		return m, fmt.Errorf("%s was signed %v ago", n.ID, age)
	}
	if n.Scope != "node:"+node {
		return m, fmt.Errorf("%s is for %s", n.ID, n.Scope)
	}
	if n.Type == "node_state_updated" {
		return told{pull: true}, nil
	}
	return readPayload(n.Payload, n.ID, node)
}

// verifies is false for a key that is not there, too.
func verifies(key, message, signature []byte) bool {
	return len(key) == ed25519.PublicKeySize && ed25519.Verify(key, message, signature)
}

func readPayload(body []byte, id, node string) (m told, err error) {
	var p payload
	if err := json.Unmarshal(body, &p); err != nil {
		return m, err
	}
	name, version, ok := strings.Cut(strings.TrimPrefix(id, node+"."), ".")
	if !ok || name != p.PolicyID || p.NodeID != node {
		return m, fmt.Errorf("id %s does not fit payload of node %s, policy %s", id, p.NodeID, p.PolicyID)
	}
	m = told{policy: p.PolicyID, fingerprint: p.Fingerprint}
	var rules bytes.Buffer
	if err := json.Compact(&rules, p.Rules); err != nil {
		return m, err
	}
	m.rules = rules.String()
	m.version, err = strconv.ParseUint(version, 10, 64)
	return m, err
}

// stream opens one SSE connection and calls f with each frame until f returns
// false, the stream ends or ctx does. Its line limit is the real agent's.
func stream(ctx context.Context, p *process, node, lastEventID string, keys map[string][]byte, f func(told) bool) error {
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+p.http+"/v1/nodes/"+node+"/events", nil)
	if err != nil {
		return err
	}
	if lastEventID != "" {
		req.Header.Set("Last-Event-ID", lastEventID)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		return fmt.Errorf("events of %s: %s", node, resp.Status)
	}
	var id string
	var data []byte
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch {
		case field == "id":
			id = value
		case field == "data":
			data = append(append(data, value...), '\n')
		case lines.Text() == "" && len(data) > 0:
			m, err := readNotice(data, node, keys)
			if err != nil {
				return fmt.Errorf("frame %s: %w", id, err)
			}
			if m.seq, err = strconv.ParseUint(id, 10, 64); err != nil {
				return err
			}
			data = nil
			if !f(m) {
				return nil
			}
		}
	}
	return lines.Err()
}

// followSSE keeps a ledger by SSE until ctx ends: it resumes after every cut, and
// pulls when it is told to.
func followSSE(ctx context.Context, p *process, l *ledger, keys map[string][]byte) {
	for ctx.Err() == nil {
		pull := false
		err := stream(ctx, p, l.node, strconv.FormatUint(l.cursor(), 10), keys, func(m told) bool {
			l.take(m)
			pull = m.pull
			return !m.pull
		})
		if pull {
			if rows, seq, err := pullRows(p, l.node); err == nil {
				l.pulled(rows, seq)
			}
		}
		if err != nil && strings.Contains(err.Error(), "frame ") {
			l.mu.Lock()
			l.fault("%v", err)
			l.mu.Unlock()
		}
		pauseFor(ctx, 20*time.Millisecond)
	}
}

// pullRows reads a node's rows, and the sequence its stream goes on after.
func pullRows(p *process, node string) (rows map[string]told, seq uint64, err error) {
	resp, err := http.Get("http://" + p.http + "/v1/nodes/" + node + "/state")
	if err != nil {
		return nil, 0, err
	}
	resp.Body.Close()
	if seq, err = strconv.ParseUint(resp.Header.Get("Edict-Node-Seq"), 10, 64); err != nil {
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
	rows = map[string]told{}
	for _, r := range list.Items {
		rows[r.PolicyID] = told{policy: r.PolicyID, fingerprint: r.Fingerprint, rules: r.RulePayload}
	}
	return rows, seq, nil
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
// and what it missed it asks for. Both are spliced by sequence.
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
	if _, err := nc.Subscribe("edict.live.node."+l.node+".>", func(*nats.Msg) { knock() }); err != nil {
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
	inbox := nats.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return
	}
	defer sub.Unsubscribe()
	ask := fmt.Appendf(nil, `{"after":%d}`, l.cursor())
	if nc.PublishRequest("edict.replay.node."+l.node, inbox, ask) != nil {
		return
	}
	for {
		m, err := sub.NextMsg(2 * time.Second)
		if err != nil || m.Header.Get("Status") != "" || m.Header.Get("Edict-Error") != "" {
			return // asked again soon
		}
		if upTo := m.Header.Get("Edict-Up-To"); upTo != "" {
			if m.Header.Get("Edict-Resync") == "true" {
				if rows, seq, err := pullRows(p, l.node); err == nil {
					l.pulled(rows, seq)
				}
			}
			return
		}
		t, err := readEnvelope(m, l.node, keys)
		if err != nil {
			l.mu.Lock()
			l.fault("%v", err)
			l.mu.Unlock()
			return
		}
		l.take(t)
	}
}

// proof is the signature of a native message: its own, or that of a run with
// the way from its leaf to the root (RFC 9162, section 2.1.3).
type proof struct {
	Alg   string `json:"alg"`
	KeyID string `json:"key_id"`
	Value []byte `json:"value"`
	Leaf  int    `json:"leaf"`
	Size  int    `json:"size"`
	Path  []byte `json:"path"`
}

func (p proof) holds(signed []byte, keys map[string][]byte) bool {
	if p.Alg == "ed25519" {
		return verifies(keys[p.KeyID], signed, p.Value)
	}
	root, rest, ok := rootOver(sha256.Sum256(append([]byte{0}, signed...)), p.Leaf, p.Size, p.Path)
	text := append(binary.BigEndian.AppendUint64([]byte("edict/batch/v1\n"), uint64(p.Size)), root[:]...)
	return ok && len(rest) == 0 && p.Alg == "ed25519-merkle" && p.Size > 1 && p.Size <= 64 && verifies(keys[p.KeyID], text, p.Value)
}

// rootOver hashes a leaf up to the root of a tree of size leaves. The left half
// of a tree holds the largest power of two below its size; the sibling of the
// upper half stands last in the path.
func rootOver(at [32]byte, leaf, size int, path []byte) (root [32]byte, rest []byte, ok bool) {
	if size == 1 {
		return at, path, leaf == 0
	}
	half := 1
	for half*2 < size {
		half *= 2
	}
	if len(path) < 32 || leaf < 0 || leaf >= size {
		return at, path, false
	}
	path, sibling := path[:len(path)-32], path[len(path)-32:]
	if leaf < half {
		at, rest, ok = rootOver(at, leaf, half, path)
		return sha256.Sum256(slices.Concat([]byte{1}, at[:], sibling)), rest, ok
	}
	at, rest, ok = rootOver(at, leaf-half, size-half, path)
	return sha256.Sum256(slices.Concat([]byte{1}, sibling, at[:])), rest, ok
}

// readEnvelope verifies a native message: the signed bytes are the envelope
// without its signature, keys sorted, no white space.
func readEnvelope(m *nats.Msg, node string, keys map[string][]byte) (told, error) {
	var sealed struct {
		Payload   json.RawMessage `json:"payload"`
		Signature proof           `json:"signature"`
	}
	if err := json.Unmarshal(m.Data, &sealed); err != nil {
		return told{}, err
	}
	open := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(m.Data))
	d.UseNumber()
	if err := d.Decode(&open); err != nil {
		return told{}, err
	}
	delete(open, "signature")
	var signed bytes.Buffer
	e := json.NewEncoder(&signed)
	e.SetEscapeHTML(false)
	if err := e.Encode(open); err != nil {
		return told{}, err
	}
	id := m.Header.Get("Edict-Id")
	if !sealed.Signature.holds(bytes.TrimRight(signed.Bytes(), "\n"), keys) {
		return told{}, fmt.Errorf("envelope %s does not verify", id)
	}
	t, err := readPayload(sealed.Payload, id, node)
	if err != nil {
		return told{}, err
	}
	t.seq, err = strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
	return t, err
}
