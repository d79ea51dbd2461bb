package relay

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// stageBorn is when every log of these tests was created.
var stageBorn = time.Unix(1_700_000_000, 0).UTC()

const stageBase = 5 << 20

var testSigner = func() *artifact.Signer {
	s, err := artifact.GenerateSigner()
	if err != nil {
		panic(err)
	}
	return s
}()

// script is a log that a test writes, event by event.
type script struct {
	t     require.TestingT
	msgs  []streams.Message
	heads map[int]uuid.UUID
	order map[int]uint32 // numbers of policies
	last  map[int]uint64 // sequences of their last events
}

func newScript(t require.TestingT) *script {
	return &script{t: t, heads: map[int]uuid.UUID{}, order: map[int]uint32{}, last: map[int]uint64{}}
}

// idOf is the id of the last event of a policy.
func (l *script) idOf(p int) policy.EventID {
	return policy.NewEventID(stageBase, l.last[p], l.order[p])
}

func (l *script) id(kind byte, n int) uuid.UUID {
	u := uuid.UUID{0: kind, 6: 0x70, 8: 0x80}
	u[12], u[13], u[14], u[15] = byte(n>>24), byte(n>>16), byte(n>>8), byte(n)
	return u
}

func (l *script) event() uuid.UUID { return l.id('e', len(l.msgs)+1) }

func (l *script) project() uuid.UUID { return l.id('P', 1) }

func (l *script) add(e policy.Event) {
	seq := uint64(len(l.msgs) + 1)
	l.msgs = append(l.msgs, streams.Message{Seq: seq, Subject: wire.Subject(e), Body: policy.Append(nil, e), Time: stageBorn.Add(time.Duration(seq) * time.Second)})
}

// idNow is the id of the last event of all, with the number of a policy.
func (l *script) idNow(p int) policy.EventID {
	return policy.NewEventID(stageBase, uint64(len(l.msgs)), l.order[p])
}

// node gives a node labels: k=v of each.
func (l *script) node(id string, pairs ...string) {
	m := map[string]string{}
	for _, p := range pairs {
		k, v, _ := strings.Cut(p, "=")
		m[k] = v
	}
	labels, err := policy.NewLabels(m, "")
	require.NoError(l.t, err)
	l.add(policy.NodeUpdated{ID: l.event(), Project: l.project(), Node: policy.NodeID(id), Labels: labels})
}

func (l *script) removeNode(id string) {
	l.add(policy.NodeRemoved{ID: l.event(), Project: l.project(), Node: policy.NodeID(id)})
}

// revise publishes a revision of a policy; rules are told apart by their ports.
func (l *script) revise(p int, selector string, ports ...int) {
	rules := make([]policy.Rule, len(ports))
	for i, port := range ports {
		rules[i] = policy.Rule{
			Action: policy.Allow, Protocol: policy.TCP,
			Source: netip.MustParsePrefix("10.0.0.0/8"), Destination: netip.MustParsePrefix("10.1.0.0/16"),
			Ports: policy.Ports{From: uint16(port), To: uint16(port)},
		}
	}
	l.reviseRules(p, selector, rules)
}

func (l *script) reviseRules(p int, selector string, rules []policy.Rule) {
	source, faults := policy.ParseExpr(selector)
	require.Empty(l.t, faults)
	nobody, _ := policy.ParseExpr("role=nobody")
	rev := l.id('r', len(l.msgs)+1)
	e := policy.RevisionCreated{
		ID: l.event(), Project: l.project(), Policy: l.id('p', p), Slug: fmt.Sprintf("p%d", p),
		Revision: policy.Revision{ID: rev, Parent: l.heads[p], Selector: policy.Selector{Source: source, Destination: nobody}, Rules: rules, CreatedAt: stageBorn, CreatedBy: "author"},
	}
	l.heads[p] = rev
	if _, ok := l.order[p]; !ok {
		l.order[p] = uint32(len(l.order))
	}
	l.add(e)
	l.last[p] = uint64(len(l.msgs))
}

func (l *script) drop(p int) {
	l.add(policy.PolicyDeleted{ID: l.event(), Project: l.project(), Policy: l.id('p', p)})
	l.last[p] = uint64(len(l.msgs))
}

// seeded is a key that is the same in every run.
func seeded(t require.TestingT, first byte) *artifact.Signer {
	seed := make([]byte, ed25519.SeedSize)
	for i := range seed {
		seed[i] = first + byte(i)
	}
	der, err := x509.MarshalPKCS8PrivateKey(ed25519.NewKeyFromSeed(seed))
	require.NoError(t, err)
	key, err := artifact.ParseSigner(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	require.NoError(t, err)
	return key
}

// release gives a node its whole set of artifacts: its agent's and some of the
// kind vertex. That of the name big has more than a data: line takes.
func (l *script) release(node string, version uint64, vertices ...string) {
	l.releaseOf("one", node, version, vertices...)
}

// releaseOf is release of a rete; of another one than the node's first the event says
// so.
func (l *script) releaseOf(rete, node string, version uint64, vertices ...string) {
	who := "spiffe://" + rete + "/management-plane/k1"
	key := seeded(l.t, 100)
	e := policy.ArtifactReleased{
		ID: l.event(), Project: l.project(), Node: policy.NodeID(node),
		Trust: []policy.TrustedSigner{{SPIFFE: who, Key: key.PublicKey()}},
	}
	add := func(kind, name, payload string) {
		doc, err := key.As(who).SealDocument(artifact.Envelope{
			Plane: artifact.PlaneMgmt, Kind: kind, Name: name, Node: node, Version: version, GeneratedAt: stageBorn, Payload: []byte(payload),
		})
		require.NoError(l.t, err)
		e.Artifacts = append(e.Artifacts, strings.TrimSuffix(string(doc), "\n"))
	}
	add("agent", "agent", fmt.Sprintf(`{"trust":{"authorized_mgmt_signers":[{"spiffe_id":%q,"pubkey":%q}]}}`, who, base64.StdEncoding.EncodeToString(key.PublicKey())))
	for _, v := range vertices {
		says := v + " <&>"
		if v == "big" {
			says = strings.Repeat(says, maxDataLine/len(says))
		}
		add("vertex", v, fmt.Sprintf(`{"runs":%q}`, says))
	}
	if rete != "one" {
		e.Rete = rete
	}
	l.add(e)
}

// stage is a worker: a fold of a script, a relay on it and its HTTP server.
type stage struct {
	t      testing.TB
	log    *script
	store  *projector.Projector
	ring   *artifact.Keyring
	relay  *Relay
	server *httptest.Server
	fed    int
	stop   context.CancelFunc // of the relay
	ended  chan struct{}      // it has
	close  func()             // ends all of it
}

// newStage starts a worker of a log.
func newStage(t testing.TB, log *script, opt Options) *stage {
	return newStageOn(t, log, opt, projector.Options{})
}

func newStageOn(t testing.TB, log *script, opt Options, popt projector.Options, set ...func(*Relay)) *stage {
	popt.Partitions, popt.Created, popt.Base = 4, stageBorn, stageBase
	store, err := projector.Open("store", popt.On(vfs.NewMem()))
	require.NoError(t, err)
	g := &stage{t: t, log: log, store: store, ring: artifact.NewKeyring(testSigner)}
	g.relay = New(store, g.ring, stageBorn, opt)
	for _, f := range set {
		f(g.relay)
	}
	g.server = httptest.NewUnstartedServer(http.HandlerFunc(g.serve))
	g.server.Config.ConnContext = WithConn
	g.server.Start()
	ctx, cancel := context.WithCancel(context.Background())
	var failed error
	g.ended = make(chan struct{})
	go func() {
		defer close(g.ended)
		failed = g.relay.Run(ctx)
	}()
	g.stop = cancel
	g.close = sync.OnceFunc(func() {
		cancel()
		<-g.ended
		require.NoError(t, failed)
		g.server.CloseClientConnections()
		g.server.Close()
		require.NoError(t, store.Close())
	})
	t.Cleanup(g.close)
	return g
}

func (g *stage) serve(w http.ResponseWriter, r *http.Request) {
	err := g.relay.ServeEvents(w, r, policy.NodeID(strings.TrimPrefix(r.URL.Path, "/")))
	var (
		notReady      *NotReadyError
		notAcceptable *NotAcceptableError
	)
	switch {
	case err == nil:
	case errors.Is(err, ErrBadLastEventID):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case errors.As(err, &notAcceptable):
		http.Error(w, err.Error(), http.StatusNotAcceptable)
	case errors.Is(err, projector.ErrUnknownNode):
		http.Error(w, err.Error(), http.StatusNotFound)
	case errors.As(err, &notReady):
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// headIsKnown has the hub hear, for streams that joined, that the log ends where
// the fold stands.
func (g *stage) headIsKnown() {
	h := g.relay.hub
	asking := h.fresh.take()
	h.leave(func(p *post) { p.heads = append(p.heads, arrivals{asking, g.store.Applied()}) })
}

// play folds what the log has and the worker has not, a batch for each number of
// events, the rest in one.
func (g *stage) play(batches ...int) {
	g.t.Helper()
	for _, n := range batches {
		require.NoError(g.t, g.store.Apply(g.log.msgs[g.fed:g.fed+n]))
		g.fed += n
	}
	if g.fed < len(g.log.msgs) {
		require.NoError(g.t, g.store.Apply(g.log.msgs[g.fed:]))
		g.fed = len(g.log.msgs)
	}
}

// frame is what a client met.
type frame struct {
	ID    policy.EventID
	Event string
	Lines int
	Data  []byte

	NoticeID string
	Payload  toldPayload
	Key      string
	Alg      string
}

type toldPayload struct {
	Node        string          `json:"node_id"`
	Policy      string          `json:"policy_id,omitempty"`
	Revision    string          `json:"revision_id,omitempty"`
	Fingerprint string          `json:"fingerprint,omitempty"`
	Rules       json.RawMessage `json:"rules,omitempty"`
	Omitted     int             `json:"rules_omitted,omitempty"`
	Reason      string          `json:"reason,omitempty"`
	Kind        string          `json:"kind,omitempty"`
	Name        string          `json:"name,omitempty"`
	Rete        string          `json:"rete,omitempty"`
	Document    *string         `json:"document,omitempty"`
}

// String says what was told, without what differs from delivery to delivery.
func (f frame) String() string {
	p, _ := json.Marshal(f.Payload)
	return fmt.Sprintf("%s %s %s %s", f.ID, f.Event, f.NoticeID, p)
}

// reader is a client of one stream.
type reader struct {
	g     *stage
	node  string
	res   *http.Response
	r     *bufio.Reader
	trust *artifact.TrustSet
	stop  context.CancelFunc
	plain bool // what it reads is not judged
}

// open begins a stream. last and accept may be empty.
func (g *stage) open(node, last, accept string) *reader {
	g.t.Helper()
	r := g.try(node, last, accept)
	require.Equal(g.t, http.StatusOK, r.res.StatusCode)
	require.Equal(g.t, "text/event-stream", r.res.Header.Get("Content-Type"))
	return r
}

func (g *stage) try(node, last, accept string) *reader {
	g.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	g.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.server.URL+"/"+node, nil)
	require.NoError(g.t, err)
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	res, err := g.server.Client().Do(req)
	require.NoError(g.t, err)
	g.t.Cleanup(func() { _ = res.Body.Close() })
	trust := artifact.NewTrustSet()
	require.NoError(g.t, trust.Add(artifact.PlanePolicy, testSigner.KeyID(), testSigner.PublicKey(), time.Time{}))
	return &reader{g: g, node: node, res: res, r: bufio.NewReader(res.Body), trust: trust, stop: cancel}
}

// close ends the stream.
func (r *reader) close() {
	r.stop()
	_ = r.res.Body.Close()
}

// next reads a frame, and judges its envelope unless the reader is plain.
func (r *reader) next() frame {
	r.g.t.Helper()
	f, err := r.read()
	require.NoError(r.g.t, err)
	return f
}

func (r *reader) read() (f frame, err error) {
	for {
		line, err := r.r.ReadString('\n')
		if err != nil {
			return f, err
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "id":
			if f.ID, err = policy.ParseEventID(value); err != nil {
				return f, err
			}
		case "event":
			f.Event = value
		case "data":
			f.Lines++
			f.Data = append(append(f.Data, value...), '\n')
		case "":
			if f.Lines > 0 {
				return f, r.judge(&f)
			}
		}
	}
}

func (r *reader) judge(f *frame) error {
	if r.plain {
		return nil
	}
	n, err := r.trust.Check(f.Data, time.Now())
	if err != nil {
		return fmt.Errorf("%w: %s", err, f.Data)
	}
	f.NoticeID, f.Key, f.Alg = n.ID, n.KeyID, n.Signature.Alg
	if n.Scope != "node:"+r.node || n.Type != f.Event {
		return fmt.Errorf("scope and type of %s", f.Data)
	}
	if f.Event == artifact.TypeKeyRotated {
		return r.trust.Rotate(n, time.Now())
	}
	if err := json.Unmarshal(n.Payload, &f.Payload); err != nil {
		return err
	}
	if f.Payload.Node != r.node {
		return fmt.Errorf("%s was told what is %s's", r.node, f.Payload.Node)
	}
	if f.Payload.Rules != nil {
		var compact bytes.Buffer
		if err := json.Compact(&compact, f.Payload.Rules); err != nil {
			return err
		}
		f.Payload.Rules = compact.Bytes()
		p, err := artifact.ParsePolicyPayload(n.Payload)
		if err != nil {
			return err
		}
		return p.Verify()
	}
	return nil
}

// until reads frames up to the one with this id, which is the last of them.
func (r *reader) until(id policy.EventID) (all []frame) {
	r.g.t.Helper()
	for {
		f := r.next()
		all = append(all, f)
		if f.ID >= id {
			require.Equal(r.g.t, id, f.ID)
			return all
		}
	}
}

// texts are frames as they compare.
func texts(frames []frame) (out []string) {
	for _, f := range frames {
		out = append(out, f.String())
	}
	return out
}
