package node

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

const self policy.NodeID = "n1"

// msg is what the fake plane tells the node under an id.
type msg struct {
	id     policy.EventID
	policy uuid.UUID
	rules  string // "" : a word to pull
}

// plane is a fake server: a list of messages, and what may go wrong on the way.
type plane struct {
	t      *testing.T
	signer *artifact.Signer

	mu       sync.Mutex
	messages []msg
	position policy.EventID                                                     // Edict-Event-Id of a pull
	state    map[uuid.UUID]string                                               // what a pull tells
	serve    func(w http.ResponseWriter, r *http.Request, after policy.EventID) // of /events; nil: everything after, then silence
	asked    []string                                                           // Last-Event-ID of every connection
	accepts  []string
	wake     chan struct{}
	pulls    int
}

func newPlane(t *testing.T) (*plane, string) {
	signer, err := artifact.GenerateSigner()
	require.NoError(t, err)
	p := &plane{t: t, signer: signer, state: map[uuid.UUID]string{}, wake: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/keys", p.keys)
	mux.HandleFunc("GET /v1/nodes/n1/state", p.getState)
	mux.HandleFunc("GET /v1/nodes/n1/rulesets", p.getRulesets)
	mux.HandleFunc("GET /v1/nodes/n1/events", p.events)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return p, server.URL
}

func (p *plane) add(m ...msg) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.messages = append(p.messages, m...)
	close(p.wake)
	p.wake = make(chan struct{})
}

// connections are the Last-Event-IDs of every stream asked for.
func (p *plane) connections() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked)
}

func (p *plane) keys(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(w, `{"items":[{"key_id":%q,"alg":"ed25519","plane":"policy","public_key":%q,"status":"current","not_after":null}]}`,
		p.signer.KeyID(), base64.StdEncoding.EncodeToString(p.signer.PublicKey()))
}

func (p *plane) rows() (rows []Row) {
	for id, rules := range p.state {
		rows = append(rows, Row{Policy: id, Revision: id, Fingerprint: sha256.Sum256([]byte(rules)), Rules: json.RawMessage(rules)})
	}
	r := &set{}
	r.replace(State{Rows: rows})
	return r.list()
}

func (p *plane) getState(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pulls++
	w.Header().Set("Edict-Event-Id", p.position.String())
	w.Header().Set(wire.HeaderLogSeq, "1")
	m := merged(p.rows())
	if m.Rules == nil {
		fmt.Fprint(w, `{"policy":null}`)
		return
	}
	fmt.Fprintf(w, `{"policy":{"revision_id":%q,"fingerprint":%q,"rules":%s}}`, m.Revision, base64.StdEncoding.EncodeToString(m.Fingerprint[:]), m.Rules)
}

func (p *plane) getRulesets(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var items []string
	for _, r := range p.rows() {
		items = append(items, fmt.Sprintf(`{"policy_id":%q,"revision_id":%q,"fingerprint":%q,"rule_payload":%q,"compiled_at":"2026-01-01T00:00:00Z"}`,
			r.Policy, r.Revision, base64.StdEncoding.EncodeToString(r.Fingerprint[:]), r.Rules))
	}
	fmt.Fprintf(w, `{"items":[%s]}`, strings.Join(items, ","))
}

func (p *plane) events(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	text := r.Header.Get("Last-Event-ID")
	p.asked = append(p.asked, text)
	p.accepts = append(p.accepts, r.Header.Get("Accept"))
	serve := p.serve
	p.mu.Unlock()
	after, err := policy.ParseEventID(text)
	if err != nil {
		http.Error(w, "bad", http.StatusBadRequest)
		return
	}
	if serve == nil {
		serve = p.live
	}
	serve(w, r, after)
}

// live sends everything after, then what is added, until the client goes.
func (p *plane) live(w http.ResponseWriter, r *http.Request, after policy.EventID) {
	w.Header().Set("Content-Type", "text/event-stream")
	for {
		p.mu.Lock()
		wake := p.wake
		text := p.stream(after, time.Now())
		if n := len(p.messages); n > 0 {
			after = max(after, p.messages[n-1].id)
		}
		p.mu.Unlock()
		_, _ = w.Write([]byte(text))
		w.(http.Flusher).Flush()
		select {
		case <-wake:
		case <-r.Context().Done():
			return
		}
	}
}

// stream is the text of every message after an id.
func (p *plane) stream(after policy.EventID, now time.Time) string {
	var b strings.Builder
	b.WriteString(":hello\n\n")
	for _, m := range p.messages {
		if m.id > after {
			b.WriteString(frameText(m.id, p.notice(m, now)))
		}
	}
	return b.String()
}

func frameText(id policy.EventID, notice []byte) string {
	// Broken into two data lines, as a long one would be.
	head, tail, _ := strings.Cut(string(notice), `,"issued_at"`)
	return fmt.Sprintf("id: %d\nevent: x\ndata: %s\ndata: ,\"issued_at\"%s\n\n", id, head, tail)
}

func (p *plane) notice(m msg, now time.Time) []byte { return p.sign(p.unsigned(m, now)) }

// run is the messages as one run, signed as docs/protocol.md has it.
func (p *plane) run(list []msg, now time.Time) (docs [][]byte) {
	var signed [][]byte
	for _, m := range list {
		n := p.unsigned(m, now)
		n.KeyID = p.signer.KeyID()
		b, err := json.Marshal(struct {
			ID       string          `json:"id"`
			Type     string          `json:"type"`
			Scope    string          `json:"scope"`
			KeyID    string          `json:"key_id"`
			IssuedAt time.Time       `json:"issued_at"`
			Payload  json.RawMessage `json:"payload"`
		}{n.ID, n.Type, n.Scope, n.KeyID, n.IssuedAt.UTC(), n.Payload})
		require.NoError(p.t, err)
		signed = append(signed, b)
	}
	root, paths := tree(signed)
	text := binary.BigEndian.AppendUint64([]byte("edict/batch/v1\n"), uint64(len(signed)))
	value := p.signer.Sign(append(text, root[:]...))
	for i, b := range signed {
		docs = append(docs, fmt.Appendf(b[:len(b)-1:len(b)-1], `,"signature":{"alg":"ed25519-merkle","key_id":%q,"leaf":%d,"path":%q,"size":%d,"value":%q}}`,
			p.signer.KeyID(), i, base64.StdEncoding.EncodeToString(paths[i]), len(signed), base64.StdEncoding.EncodeToString(value)))
	}
	return docs
}

// tree is the root over texts, and the way from each to it.
func tree(texts [][]byte) (root [sha256.Size]byte, paths [][]byte) {
	if len(texts) == 1 {
		return sha256.Sum256(append([]byte{0}, texts[0]...)), [][]byte{nil}
	}
	half := 1
	for half*2 < len(texts) {
		half *= 2
	}
	left, to := tree(texts[:half])
	right, more := tree(texts[half:])
	for _, path := range to {
		paths = append(paths, append(path, right[:]...))
	}
	for _, path := range more {
		paths = append(paths, append(path, left[:]...))
	}
	return sha256.Sum256(slices.Concat([]byte{1}, left[:], right[:])), paths
}

func (p *plane) unsigned(m msg, now time.Time) artifact.Notice {
	n := artifact.Notice{ID: "n1.resync", Type: TypeStateUpdated, Scope: "node:n1", IssuedAt: now, Payload: json.RawMessage(`{"node_id":"n1","reason":"resync"}`)}
	if m.rules != "" {
		n.ID, n.Type = "n1."+m.id.String(), TypePolicyUpdated
		n.Payload = artifact.PolicyPayload{
			NodeID: self, PolicyID: m.policy, RevisionID: m.policy,
			Fingerprint: sha256.Sum256([]byte(m.rules)), Rules: json.RawMessage(m.rules),
		}.Append(nil)
	}
	return n
}

func (p *plane) sign(n artifact.Notice) []byte {
	n.Payload = artifact.NoticePayload(n.Payload)
	return p.signer.AppendNotice(nil, n)
}
