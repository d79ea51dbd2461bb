package relay

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

var updateGolden = flag.Bool("update", false, "rewrite testdata/frames.golden")

// goldenSigner has the key whose seed is the bytes 0 to 31.
func goldenSigner(t *testing.T) *artifact.Signer {
	t.Helper()
	seed := make([]byte, ed25519.SeedSize)
	for i := range seed {
		seed[i] = byte(i)
	}
	der, err := x509.MarshalPKCS8PrivateKey(ed25519.NewKeyFromSeed(seed))
	require.NoError(t, err)
	s, err := artifact.ParseSigner(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	require.NoError(t, err)
	return s
}

// goldenAnswer is what a node missed in a small log: two rows, one told again,
// one that is gone; an artifact, and one that is gone; words.
func goldenAnswer(t *testing.T) answer {
	t.Helper()
	log := newScript(t)
	log.node("n1", "role=web")
	log.revise(0, "role=web", 80)
	log.revise(1, "role", 22)
	log.revise(2, "role=web", 443)
	log.revise(2, "role=db", 443) // lets go
	log.revise(0, "role=web", 80, 8080)
	log.node("n1", "role=web", "a=b")              // told again
	log.reviseRules(3, "role=web", []policy.Rule{{ // which no node can be told in rules
		Action: policy.Allow, Protocol: policy.Any, SourceSelector: "role=db", Destination: netip.MustParsePrefix("10.0.0.0/8"),
	}})
	store, err := projector.Open(t.TempDir(), projector.Options{Partitions: 4, Created: stageBorn, Base: stageBase})
	require.NoError(t, err)
	defer store.Close()
	require.NoError(t, store.Apply(log.msgs))
	refused, err := store.Rejections(0, 1)
	require.NoError(t, err)
	require.Empty(t, refused)
	p, err := store.Past("n1", policy.EndOf(stageBase, 2), nil)
	require.NoError(t, err)
	document := []byte(`{"kind":"vertex","name":"v","version":7}` + "\n")
	item := projector.Item{Seq: 8, Time: p.Time, Kind: "vertex", Name: "v"}
	lost, has := item, item
	lost.ID = policy.NewEventID(stageBase, 8, policy.NumberWithdrawn)
	has.ID, has.Fingerprint, has.Payload = policy.NewEventID(stageBase, 8, policy.NumberArtifact+1), compiler.FingerprintOf(document), document
	items := append(p.Items, projector.PastItem{Item: lost, Gone: true}, projector.PastItem{Item: has})
	return answer{
		pull: true, pullID: policy.EndOf(stageBase, 2), items: items, table: true,
		upTo: policy.EndOf(stageBase, p.Seq), seq: p.Seq, time: p.Time,
	}
}

// TestFramesAreGolden stops a change of what is on a wire: field's agents verify
// these very bytes, and two workers of one protocol version must agree on all of
// them but issued_at, nonces and the runs that signatures are over.
func TestFramesAreGolden(t *testing.T) {
	var got bytes.Buffer
	a := goldenAnswer(t)
	keys := artifact.Keys{Current: goldenSigner(t)}
	for _, d := range []policy.Dialect{policy.DialectCurrent, policy.DialectBatch} {
		fmt.Fprintf(&got, "# SSE, %s\n\n%s", d, goldenStream(t, d, keys, a.messages()))
	}
	got.WriteString("# NATS\n\n")
	goldenSubject(t, &got, keys, a)
	const file = "testdata/frames.golden"
	if *updateGolden {
		require.NoError(t, os.WriteFile(file, got.Bytes(), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got.String(), "the bytes on the wire changed: that takes another protocol version")
}

// goldenStream is what a stream writes of news.
func goldenStream(t *testing.T, d policy.Dialect, keys artifact.Keys, list []*message) string {
	t.Helper()
	rec := httptest.NewRecorder()
	issued := time.Date(2026, 11, 20, 12, 0, 0, 120_000_000, time.UTC)
	s := &stream{
		node: "n1", scope: "node:n1", dialect: d, w: rec, rc: http.NewResponseController(rec),
		relay: &Relay{opt: Options{Metrics: quiet{}, WriteTimeout: time.Minute}},
	}
	h := &handed{list: list, keys: keys, issued: issued}
	if d == policy.DialectBatch {
		run := artifact.NewNoticeRun(keys.Current)
		for _, n := range list {
			run.Add(s.notice(n, n.appendPayload(nil, s.node), issued))
		}
		h.run = run.Sign()
	}
	require.NoError(t, s.writeAll(h))
	return rec.Body.String()
}

// goldenSubject writes what is published of an answer: a run, and one alone.
func goldenSubject(t *testing.T, w *bytes.Buffer, keys artifact.Keys, a answer) {
	t.Helper()
	onSubject(t, keys, a, func(subject string, header map[string][]string, body []byte) {
		fmt.Fprintf(w, "%s\n", subject)
		for _, name := range slices.Sorted(maps.Keys(header)) {
			fmt.Fprintf(w, "%s: %s\n", name, header[name][0])
		}
		fmt.Fprintf(w, "\n%s\n\n", body)
	})
}

// onSubject is what is published of an answer.
func onSubject(t *testing.T, keys artifact.Keys, a answer, send func(subject string, header map[string][]string, body []byte)) {
	t.Helper()
	e := newEnvelopes(artifact.NewKeyring(keys.Current), "1700000000000000000", func() int { return 1 << 20 })
	var lines []outgoing
	var prev policy.EventID
	for _, i := range a.items {
		th, err := e.itemContent(i.Item, i.Gone, streams.Trace{})
		require.NoError(t, err)
		lines = append(lines, outgoing{th, "n1", prev})
		prev = th.ID
	}
	lines = append(lines, outgoing{e.pullContent(artifact.ReasonDatapath, stageBase, a.seq, a.time), "n1", prev})
	for _, some := range [][]outgoing{lines, lines[:1]} {
		require.NoError(t, e.sealer().seal(e.keys.Current(), some, func(l *outgoing, header map[string][]string, body []byte) error {
			send(wire.NodeSubject(l.node, l.name), header, body)
			return nil
		}))
	}
}
