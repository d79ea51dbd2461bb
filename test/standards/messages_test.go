package standards_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/admission"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/binary"
	"github.com/edictdev/edict/internal/test/reterepo"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

var project = uuid.MustParse("00000000-0000-4000-8000-000000000000")

// TestEveryMessageIsAsDescribed holds real messages against docs/asyncapi.yaml: their
// subjects, headers and bodies. Whatever the document has must occur in one.
func TestEveryMessageIsAsDescribed(t *testing.T) {
	d := describe(t)
	d.stored()
	p := binary.Serve(t)
	nc, err := nats.Connect(p.NATS)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	w := worker{d, p.URL, nc}
	w.verdicts()
	w.nodes()
	require.Empty(t, d.unseen(), "described, and not said by anybody")
}

// stored has the streams of a plane write one message each of what they take.
func (d *described) stored() {
	t := d.t
	s, err := streams.StartServer(streams.ServerOptions{Dir: t.TempDir(), Listen: "127.0.0.1:0", Relaxed: true})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	conn, err := streams.Connect(t.Context(), streams.ConnectOptions{URL: s.ClientURL()})
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	log, err := streams.OpenLog(t.Context(), conn, streams.LogOptions{})
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root(t), "docs", "events.md"))
	require.NoError(t, err)
	for _, example := range regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		e, err := policy.Decode([]byte(example[1]))
		if err != nil {
			continue // of something else
		}
		seq, _, err := log.Publish(t.Context(), streams.Append{
			Event: e, Principal: "ana", Correlation: "ticket-1", Request: strings.Repeat("0", 64),
			Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		})
		require.NoError(t, err)
		m, err := log.Get(t.Context(), seq)
		require.NoError(t, err)
		d.check(e.EventType(), m.Subject, m.Header, m.Body)
	}

	nc, err := nats.Connect(s.ClientURL())
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	all, err := nc.SubscribeSync("edict.>")
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	next := func(name string) {
		m, err := all.NextMsg(30 * time.Second)
		require.NoError(t, err)
		d.check(name, m.Subject, m.Header, m.Data)
	}

	rejected, err := streams.OpenRejected(t.Context(), conn)
	require.NoError(t, err)
	require.NoError(t, rejected.Write(t.Context(), streams.Rejection{
		Seq: 1, Subject: "edict.log.x", EventID: project.String(), Type: "node_updated", Code: policy.Invalid, Detail: "no", Time: time.Now(),
		Violations: []policy.Violation{{Pointer: "/labels", Code: policy.CodeTextTooLong, Detail: "no"}},
	}))
	next("rejection")

	chain, err := streams.OpenChain(t.Context(), conn)
	require.NoError(t, err)
	_, err = chain.Append(t.Context(), 0, streams.Link{Log: log.ID(), Base: 7, Seq: 1, Accepted: true, Restored: true})
	require.NoError(t, err)
	next("link")

	decisions, err := streams.OpenDecisions(t.Context(), conn, streams.DecisionsOptions{})
	require.NoError(t, err)
	for _, outcome := range admission.Outcomes {
		body, err := json.Marshal(decided(outcome))
		require.NoError(t, err)
		require.NoError(t, decisions.Write(t.Context(), []streams.Decision{{Outcome: outcome, Body: body}}))
		next("decision")
	}

	body := policy.AppendReport(nil, policy.Report{
		Version: 7, Event: 7, Outcome: policy.OutcomeRefused, Reason: "no room", Table: 7, Audited: []policy.AuditCount{{Policy: project, Egress: 1}},
	})
	require.NoError(t, nc.Publish(streams.ReportSubject("web-1"), body))
	next("report")
}

// decided is a record of the decision log with every member.
func decided(outcome string) admission.Record {
	judge := admission.Judge{RecordedPolicy: admission.RecordedPolicy{ID: "a", Name: "A"}, Outcome: admission.OutcomeRejected}
	judge.Level, judge.Owned, judge.Version = admission.Tenant, true, 7
	shadow := admission.RecordedShadow{RecordedPolicy: judge.RecordedPolicy, Outcome: admission.OutcomeError, Reason: "no"}
	return admission.Record{
		DecisionID: project.String(), Time: time.Now(), Worker: "a", SnapshotVersion: 7, DryRun: true, ServiceType: "vm",
		Labels: map[string]string{"role": "web"}, UserID: "ana", TenantID: "shop", RequestPayload: map[string]any{"size": 1}, Outcome: outcome,
		ResultPayload: map[string]any{"size": 2}, ServiceProvider: &admission.ServiceProvider{Value: "a"}, Policy: &judge.RecordedPolicy, Reason: "no",
		Policies: []admission.Judge{judge}, PoliciesLeftOut: 1, Shadows: []admission.RecordedShadow{shadow}, ShadowsLeftOut: 1, TookNS: 7, Masked: []string{"/user_id"},
	}
}

// worker is a plane that is asked.
type worker struct {
	*described
	url string
	nc  *nats.Conn
}

// verdicts asks what became of events.
func (w worker) verdicts() {
	appended := func(node, body string) uint64 {
		m, err := w.nc.Request("edict.log."+project.String()+".node."+node, []byte(body), 30*time.Second)
		require.NoError(w.t, err)
		var ack struct{ Seq uint64 }
		require.NoError(w.t, json.Unmarshal(m.Data, &ack))
		require.NotZero(w.t, ack.Seq, "%s", m.Data)
		return ack.Seq
	}
	ask := func(seq uint64, q projector.Question, verdict string) {
		body, err := json.Marshal(q)
		require.NoError(w.t, err)
		subject := fmt.Sprintf("%s%s.%d", wire.PrefixVerdict, project, seq)
		w.check("verdict_question", subject, nil, body)
		m, err := w.nc.Request(subject, body, 30*time.Second)
		require.NoError(w.t, err)
		w.check("verdict", subject, m.Header, m.Data)
		var a projector.Answer
		require.NoError(w.t, json.Unmarshal(m.Data, &a))
		require.Equal(w.t, verdict, a.Verdict+m.Header.Get(wire.HeaderError), "%s", m.Data)
	}
	good := fmt.Sprintf(`{"id":"0190a1b2-0000-7000-8000-000000000001","type":"node_updated","project_id":%q,"node_id":"db-1","labels":{},"addresses":[]}`, project)
	seq := appended("db-1", good)
	ask(seq, projector.Question{}, projector.VerdictApplied)
	ask(seq, projector.Question{SHA256: strings.Repeat("A", 64), EventID: "0190a1b2-0000-7000-8000-000000000001"}, projector.VerdictRejected)
	ask(appended("db-2", strings.NewReplacer("db-1", "db-2", "0001", "0002", "[]", `["x"]`).Replace(good)), projector.Question{}, projector.VerdictRejected)
	ask(seq+100, projector.Question{}, projector.AnswerEventNotFound)
}

// nodes has the plane send nodes everything that it may, live and as replays.
func (w worker) nodes() {
	live, err := w.nc.SubscribeSync(wire.NodeFilter("alpha"))
	require.NoError(w.t, err)
	require.NoError(w.t, w.nc.Flush())
	w.replays("alpha", `{"after":"0","tables":true}`, "replay_refused")
	w.put("nodes/alpha", `{"labels":{"role":"web"},"addresses":["10.0.0.1"]}`)
	w.replays("alpha", `{"after":"0","tables":true}`, "replay_end")
	for _, slug := range []string{"web", "web-again"} {
		w.send(http.MethodPost, "/v1/projects/"+project.String()+"/policies", "application/json", fmt.Sprintf(`{"slug":%q,"selector":{"source":"role=web","destination":"role=web"},
			"rules":[{"action":"allow","protocol":"any","source_selector":"role=web","destination_selector":"role=web"}]}`, slug))
	}
	for beta := 1; beta == 1 || !w.sent(live, wire.TypeStateUpdated, time.Second/4); beta++ { // what changed before it was known that alpha enforces tables is not announced
		w.put("nodes/beta", fmt.Sprintf(`{"labels":{"role":"web"},"addresses":["10.0.1.%d"]}`, beta))
	}
	w.release("alpha")
	require.True(w.t, w.sent(live, wire.TypeArtifactUpdated, 30*time.Second))
	w.send(http.MethodPost, "/v1/keys:rotate", "", "")
	w.replays("alpha", `{"after":"1"}`, "replay_key", "replay_item", "replay_end")
}

// sent says whether a message of a type came to a node before nothing came for a while.
func (w worker) sent(live *nats.Subscription, name string, within time.Duration) bool {
	w.t.Helper()
	for {
		m, err := live.NextMsg(within)
		if err != nil {
			return false
		}
		w.check(m.Header.Get(wire.HeaderType), m.Subject, m.Header, m.Data)
		if m.Header.Get(wire.HeaderType) == name {
			return true
		}
	}
}

// replays asks for what a node missed, and wants messages of these names in the answer.
func (w worker) replays(node policy.NodeID, question string, names ...string) {
	w.t.Helper()
	subject := wire.ReplaySubject(node)
	w.check("replay_question", subject, nil, []byte(question))
	inbox := w.nc.NewInbox()
	answer, err := w.nc.SubscribeSync(inbox)
	require.NoError(w.t, err)
	require.NoError(w.t, w.nc.PublishRequest(subject, inbox, []byte(question)))
	got := map[string]bool{}
	for name := ""; name != "replay_end" && name != "replay_refused"; got[name] = true {
		m, err := answer.NextMsg(30 * time.Second)
		require.NoError(w.t, err)
		name = "replay_item"
		for header, of := range map[string]string{wire.HeaderUpTo: "replay_end", wire.HeaderError: "replay_refused", wire.HeaderEvent: "replay_key"} {
			if m.Header.Get(header) != "" {
				name = of
			}
		}
		w.check(name, subject, m.Header, m.Data)
	}
	for _, name := range names {
		require.True(w.t, got[name], "%s in answer to %s: %v", name, question, got)
	}
}

// release releases what retectl compiles for a node.
func (w worker) release(node string) {
	w.t.Helper()
	line := resource.ReleaseLine{NodeID: node}
	for _, f := range reterepo.Signed(reterepo.Example(), "primary", 1)[node] {
		line.Artifacts = append(line.Artifacts, string(f.Text))
	}
	require.NotEmpty(w.t, line.Artifacts)
	public := reterepo.Key("primary").Public().(ed25519.PublicKey)
	line.Trust = []resource.Signer{{SPIFFE: reterepo.SignerID("rete-lovers", "primary"), Key: base64.StdEncoding.EncodeToString(public)}}
	body, err := json.Marshal(line)
	require.NoError(w.t, err)
	w.send(http.MethodPost, "/v1/projects/"+project.String()+"/artifacts:release", "application/x-ndjson", string(body)+"\n")
}

func (w worker) put(of, body string) {
	w.t.Helper()
	w.send(http.MethodPut, "/v1/projects/"+project.String()+"/"+of, "application/json", body)
}

func (w worker) send(method, path, media, body string) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, strings.NewReader(body))
	require.NoError(w.t, err)
	req.Header.Set("Content-Type", media)
	res, err := http.DefaultClient.Do(req)
	require.NoError(w.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(w.t, err)
	require.Less(w.t, res.StatusCode, 300, "%s %s: %s", method, path, text)
}
