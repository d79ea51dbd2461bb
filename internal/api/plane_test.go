package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/convergence"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/policy"
)

// realPlane serves the API over an embedded server, its log and a fold that
// runs, to a client over the network.
type realPlane struct {
	*client.Client
	hasty  *client.Client // a 503 is its answer
	log    *streams.Log
	fold   *projector.Projector
	opt    projector.Options
	routes sync.Map // of "METHOD pattern" to how often it was asked

	decisions *streams.Decisions
	monitor   *convergence.Monitor // takes a sample when a test says so
}

func newRealPlane(t *testing.T) *realPlane {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	server, err := streams.StartServer(streams.ServerOptions{Dir: t.TempDir(), Listen: "none", Relaxed: true})
	require.NoError(t, err)
	t.Cleanup(server.Close)
	conn, err := streams.Connect(ctx, streams.ConnectOptions{Server: server, Name: "test"})
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	log, err := streams.OpenLog(ctx, conn, streams.LogOptions{Partitions: 4})
	require.NoError(t, err)
	opt := projector.Options{Partitions: log.Partitions(), Created: log.Created(), First: log.First()}
	p := &realPlane{log: log, opt: opt, fold: openFold(t, opt)}
	p.decisions, err = streams.OpenDecisions(ctx, conn, streams.DecisionsOptions{})
	require.NoError(t, err)
	folded := make(chan error, 1)
	go func() { folded <- p.fold.Run(ctx, log) }()
	t.Cleanup(func() { stop(); require.NoError(t, <-folded) })

	tracker := runTracker(t, convergence.Options{Model: p.fold, Events: log, Open: func(ctx context.Context) (convergence.Reports, error) {
		return streams.OpenReports(ctx, conn)
	}})
	p.monitor = convergence.NewMonitor(tracker, func() int { return 0 })
	h := judged(t, api.New(api.Deps{
		Log: log, Model: p.fold, Relay: &stubRelay{position: 1}, Convergence: tracker, Fleet: p.monitor,
		StatusDeps:  api.StatusDeps{Durability: conn.Durability},
		HistoryDeps: api.HistoryDeps{Event: log.Get, History: historyOf(t, log, opt, 1), Decisions: p.decisions},
		LimitDeps:   api.LimitDeps{MaxMessage: conn.MaxPayload()},
		KeyDeps:     api.KeyDeps{RotateKey: rotated},
		CheckpointDeps: api.CheckpointDeps{
			SaveSnapshot:  func(context.Context) (snapshot.Manifest, error) { return manifest, nil },
			ListSnapshots: func(context.Context) ([]snapshot.Manifest, error) { return []snapshot.Manifest{manifest}, nil },
			Compact: func(_ context.Context, seq uint64, archive string) (snapshot.OriginManifest, error) {
				return snapshot.OriginManifest{Manifest: manifest, Archive: archive}, nil
			},
		},
	}))
	mux := http.NewServeMux()
	for _, r := range api.Routes() {
		mux.HandleFunc(r.Method+" "+r.Pattern, func(w http.ResponseWriter, req *http.Request) {
			p.routes.Store(r.ID, true)
			h.ServeHTTP(w, req)
		})
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	p.Client, err = client.New(s.URL, client.Options{HTTP: s.Client(), Principal: "ann"})
	require.NoError(t, err)
	p.hasty, err = client.New(s.URL, client.Options{HTTP: s.Client(), Principal: "ann", Patience: -1})
	require.NoError(t, err)
	return p
}

var manifest = snapshot.Manifest{Name: "checkpoint-1", Seq: 3, Rows: 2, Digest: strings.Repeat("0a", 32), Chain: strings.Repeat("0b", 32), Schema: 2, Bytes: 9, Time: epoch, Worker: "w1"}

var home = uuid.MustParse(project)

func webDraft(slug string) resource.Draft {
	return resource.Draft{
		Slug: slug, DisplayName: "Web",
		Selector: resource.Selector{Source: "role=web", Destination: "role=db"},
		Rules: []resource.Rule{{
			Action: "allow", Protocol: "tcp", SourceCIDR: "10.0.0.0/8", DestinationCIDR: "10.1.0.0/16",
			Ports: &resource.Ports{From: 5432, To: 5432},
		}},
	}
}

// The client speaks every route there is, and what it reads follows what it
// wrote.
func TestAPlaneByItsClient(t *testing.T) {
	gen.Unraced()
	p := newRealPlane(t)
	ctx := t.Context()
	made, err := p.Policies.Create(ctx, home, webDraft("web"), client.Key("k1"), client.Correlation("c1"))
	require.NoError(t, err)
	again, err := p.Policies.Create(ctx, home, webDraft("web"), client.Key("k1"), client.Correlation("c1"))
	require.NoError(t, err)
	require.Equal(t, made, again)

	n, created, err := p.Nodes.Put(ctx, home, "n1", resource.Facts{Labels: map[string]string{"role": "web"}, Addresses: []string{"10.0.0.1"}})
	require.NoError(t, err)
	require.True(t, created)
	batch, err := p.Nodes.Import(ctx, home, strings.NewReader(`{"id":"n2","labels":{"role":"db"}}`+"\n"+`{"id":"n1","labels":{"role":"web"},"addresses":["10.0.0.1"]}`))
	require.NoError(t, err)
	require.Equal(t, resource.BatchResult{Applied: 1, Unchanged: 1, Rejected: []resource.RejectedLine{}}, batch)
	got, err := p.Nodes.Get(ctx, home, "n1")
	require.NoError(t, err)
	require.Equal(t, n, got)
	listed, err := p.Nodes.List(ctx, home, "role", client.Page{Limit: 1})
	require.NoError(t, err)
	require.Len(t, listed.Items, 1)
	require.NotNil(t, listed.NextCursor)

	rules := made.Head.Rules
	rules[0].Action = "deny"
	revised, err := p.Policies.Revise(ctx, home, made.ID, resource.Patch{Rules: rules, ExpectedRevisionID: &made.HeadRevisionID})
	require.NoError(t, err)
	read, err := p.Policies.Get(ctx, home, made.ID)
	require.NoError(t, err)
	require.Equal(t, revised, read)
	revs, err := p.Policies.Revisions(ctx, home, made.ID, client.Page{})
	require.NoError(t, err)
	require.Len(t, revs.Items, 2)
	one, err := p.Policies.Revision(ctx, home, made.ID, made.HeadRevisionID)
	require.NoError(t, err)
	require.Equal(t, revs.Items[1], one)
	diff, err := p.Policies.Diff(ctx, home, made.ID, made.HeadRevisionID, revised.HeadRevisionID)
	require.NoError(t, err)
	require.Len(t, diff.Modified, 1)
	first, err := p.Policies.DryRunNew(ctx, home, resource.NewPreview{Preview: resource.Preview{Selector: made.Head.Selector, Rules: rules}})
	require.NoError(t, err)
	require.Equal(t, rules, first.RuleDiff.Added, "all that it says is new")
	require.Empty(t, first.RuleDiff.Removed)
	dry, err := p.Policies.DryRun(ctx, home, made.ID, resource.Preview{Selector: made.Head.Selector, Rules: rules})
	require.NoError(t, err)
	require.Equal(t, []string{"n1", "n2"}, dry.MatchedNodeIDs)
	require.Equal(t, []string{"n2"}, dry.UnreachableNodeIDs)
	require.Zero(t, dry.PeerPairsAffected)

	state, err := p.Nodes.State(ctx, "n1", client.StateQuery{})
	require.NoError(t, err)
	require.Equal(t, policy.EventID(1), state.EventID)
	require.Contains(t, string(state.Body), revised.HeadRevisionID.String())
	same, err := p.Nodes.State(ctx, "n1", client.StateQuery{ETag: state.ETag, MinSeq: 1})
	require.NoError(t, err)
	require.True(t, same.NotModified)
	rows, err := p.Nodes.Rulesets(ctx, "n2")
	require.NoError(t, err)
	require.Len(t, rows, 1)
	events, err := p.Nodes.Events(ctx, "n1", "3")
	require.NoError(t, err)
	hello := make([]byte, 8)
	_, err = io.ReadFull(events, hello)
	require.NoError(t, err)
	require.NoError(t, events.Close())

	require.NotZero(t, state.LogSeq)
	require.NoError(t, p.Nodes.ReportApplied(ctx, "n1", resource.Applied{Version: state.LogSeq, Fingerprint: rows[0].Fingerprint}))
	behind, err := p.Nodes.Reported(ctx, client.ReportQuery{States: []string{"silent"}}, client.Page{})
	require.NoError(t, err)
	require.Len(t, behind.Items, 1)
	require.Equal(t, "n2", behind.Items[0].ID)
	for n, err := range p.Nodes.AllReported(ctx, client.ReportQuery{Project: home}) {
		require.NoError(t, err)
		alone, err := p.Nodes.Report(ctx, home, n.ID)
		require.NoError(t, err)
		require.Equal(t, n.Report.State, alone.Report.State)
	}
	for _, of := range []client.ReportQuery{{}, {Project: home}} {
		counts, err := p.Nodes.Count(ctx, of, "role", 1)
		require.NoError(t, err)
		require.Equal(t, resource.ByState{Nodes: 2, Applied: 1, Silent: 1}, counts.ByState)
		require.Equal(t, "db", *counts.Groups[0].Value)
	}
	require.NoError(t, p.monitor.Take(ctx, time.Now()))
	for s, err := range p.FleetEvents(ctx) {
		require.NoError(t, err)
		require.Equal(t, resource.ByState{Nodes: 2, Applied: 1, Silent: 1}, s.ByState)
		break
	}
	hour, err := p.FleetHistory(ctx)
	require.NoError(t, err)
	require.Len(t, hour.Items, 1)
	preview := resource.Preview{Selector: made.Head.Selector, Rules: made.Head.Rules}
	staged, err := p.Policies.Stage(ctx, home, made.ID, preview)
	require.NoError(t, err)
	require.Equal(t, "staged", staged.Phase)
	moved, err := p.Policies.Promote(ctx, home, made.ID, resource.Promotion{RevisionID: &staged.RevisionID, Waves: []string{"role=web", "role=db"}})
	require.NoError(t, err)
	require.Equal(t, "progressing", moved.Phase)
	_, err = p.Policies.Revise(ctx, home, made.ID, resource.Patch{DisplayName: &made.Slug})
	require.ErrorContains(t, err, "rolled out")
	moved, err = p.Policies.OpenWave(ctx, home, made.ID, resource.NextWave{Wave: 2})
	require.NoError(t, err)
	require.Equal(t, 2, moved.Opened)
	moved, err = p.Policies.Abort(ctx, home, made.ID, resource.Abort{Reason: "not today"})
	require.NoError(t, err)
	require.Equal(t, "aborted", moved.Phase)

	rollout, err := p.Policies.Rollout(ctx, home, made.ID, 1)
	require.NoError(t, err)
	require.Equal(t, 2, rollout.Desired)
	require.Equal(t, 1, rollout.Applied)
	require.Len(t, rollout.Lagging, 1)
	require.Equal(t, "n2", rollout.Lagging[0].NodeID)

	sheet, err := p.Datapath.Table(ctx, "n1", client.TableQuery{StateQuery: client.StateQuery{MinSeq: 1}})
	require.NoError(t, err)
	require.Contains(t, string(sheet.Body), `"node_id":"n1"`)
	unchanged, err := p.Datapath.Table(ctx, "n1", client.TableQuery{StateQuery: client.StateQuery{ETag: sheet.ETag}})
	require.NoError(t, err)
	require.True(t, unchanged.NotModified)
	why, err := p.Datapath.Explain(ctx, "n1", client.Flow{Direction: "egress", Peer: "n2", Protocol: "tcp", Port: 443})
	require.NoError(t, err)
	require.NotEmpty(t, why.Verdict)
	earlier, err := p.Nodes.State(ctx, "n1", client.StateQuery{At: fmt.Sprint(sheet.LogSeq)})
	require.NoError(t, err)
	require.Equal(t, sheet.LogSeq, earlier.LogSeq)
	became, err := p.Nodes.Diff(ctx, "n1", fmt.Sprint(sheet.LogSeq), "")
	require.NoError(t, err)
	require.Equal(t, earlier.ETag, became.From.ETag)
	list, err := p.Nodes.Policies(ctx, "n1", true)
	require.NoError(t, err)
	require.NotEmpty(t, list.Lines)

	p.operate(t)
	p.register(t)
	p.admitPeople(t)
	p.releaseAndWithdraw(t)
	p.openAndCloseSession(t)

	require.NoError(t, p.Policies.Delete(ctx, home, made.ID))
	require.NoError(t, p.Nodes.Delete(ctx, home, "n1"))
	for range p.Policies.All(ctx, home) {
		t.Fatal("deleted")
	}
	for _, r := range api.Routes() {
		if strings.HasPrefix(r.ID, "alpha") {
			continue // the surface of existing clients
		}
		if r.Lenient {
			continue // what agents of the field call
		}
		if r.ID == "beginSignIn" || r.ID == "endSignIn" {
			continue // where browsers go
		}
		_, asked := p.routes.Load(r.ID)
		require.True(t, asked, "the client has no call for %s", r.ID)
	}
}

// releaseAndWithdraw walks through the life of a node's artifacts.
func (p *realPlane) releaseAndWithdraw(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	got, err := p.Releases.Create(ctx, home, strings.NewReader(handmade("n1", 3)))
	require.NoError(t, err)
	require.Equal(t, 1, got.Applied)
	for r, err := range p.Releases.All(ctx, home) {
		require.NoError(t, err)
		require.Equal(t, "n1", r.NodeID)
	}
	held, seq, err := p.Nodes.Artifacts(ctx, "n1")
	require.NoError(t, err)
	require.NotZero(t, seq)
	past, err := p.Releases.Get(ctx, home, "n1", 3)
	require.NoError(t, err)
	require.Equal(t, held, past)
	all, err := p.Releases.Retes(ctx, home)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.NoError(t, p.Releases.Withdraw(ctx, home, "n1", "vertex", "flor"))
}

// register walks through an admission policy's life.
func (p *realPlane) register(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	made, err := p.Admission.Create(ctx, json.RawMessage(admissionDraft(t, "n", "Global", 1, specified(`{"patch": {"a": 1}}`))))
	require.NoError(t, err)
	require.NoError(t, p.decisions.Write(ctx, []streams.Decision{{Outcome: "approved", Body: []byte(`{"decision_id":"d1","outcome":"approved","user_id":"ana","request_payload":{}}`)}}))
	for d, err := range p.Admission.AllDecisions(ctx, url.Values{"user": {"ana"}}) {
		require.NoError(t, err)
		require.Equal(t, "d1", d.DecisionID)
		x, err := p.Admission.ExplainDecision(ctx, d.Seq)
		require.NoError(t, err)
		require.Equal(t, "MODIFIED", x.Now.Status, "there is a policy by now")
	}
	events, err := p.Admission.DecisionEvents(ctx, nil, "0")
	require.NoError(t, err)
	for lines := bufio.NewScanner(events); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "data: ") {
			require.Contains(t, lines.Text(), `"seq":1,"decision_id":"d1"`)
			break
		}
	}
	require.NoError(t, events.Close())
	for x, err := range p.Admission.All(ctx, nil) {
		require.NoError(t, err)
		require.Equal(t, made.ID, x.ID)
	}
	x, err := p.Admission.Get(ctx, made.ID)
	require.NoError(t, err)
	change := json.RawMessage(body(t, "rego_code", specified(`{"patch": {"a": 2}}`)))
	dry, err := p.Admission.Replace(ctx, made.ID, change, x.Version, client.DryRun)
	require.NoError(t, err)
	require.Zero(t, dry.Version)
	x, err = p.Admission.Replace(ctx, made.ID, change, x.Version)
	require.NoError(t, err)
	out, err := p.Admission.Evaluate(ctx, json.RawMessage(`{"request_payload":{}}`), true)
	require.NoError(t, err)
	require.JSONEq(t, `{"a":2}`, string(out.RequestPayload))
	require.Equal(t, x.Version, out.Explain.SnapshotVersion)
	require.NoError(t, p.Admission.Delete(ctx, made.ID))
}

// admitPeople gives and takes what somebody may do.
func (p *realPlane) admitPeople(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	self, err := p.Self(ctx)
	require.NoError(t, err)
	require.Empty(t, self.Relations, "access is not configured")
	ana, err := p.Principals.Put(ctx, "ana", resource.PrincipalDocument{Kind: "person"}, 0)
	require.NoError(t, err)
	_, err = p.Principals.WriteRelation(ctx, "ana", "plane#read")
	require.NoError(t, err)
	again, err := p.Principals.Get(ctx, "ana")
	require.NoError(t, err)
	require.Equal(t, ana.Version, again.Version)
	require.Len(t, again.Relations, 1)
	for x, err := range p.Principals.All(ctx) {
		require.NoError(t, err)
		require.Equal(t, again, x)
	}
	require.NoError(t, p.Principals.RemoveRelation(ctx, "ana", "plane#read"))
	require.NoError(t, p.Principals.Delete(ctx, "ana"))
	bound, err := p.Projects.SetQuota(ctx, home, resource.Quota{Nodes: 1000, EventsPerSecond: 1000})
	require.NoError(t, err)
	require.EqualValues(t, 1000, bound.Quota.Nodes)
	found, err := p.Projects.Get(ctx, home)
	require.NoError(t, err)
	require.Equal(t, bound.Quota, found.Quota)
	away := uuid.MustParse("01900000-0000-7000-8000-0000000000aa")
	archived, err := p.Projects.Archive(ctx, away)
	require.NoError(t, err)
	require.NotNil(t, archived.ArchivedAt)
	restored, err := p.Projects.Restore(ctx, away)
	require.NoError(t, err)
	require.Nil(t, restored.ArchivedAt)
	for x, err := range p.Projects.All(ctx) {
		require.NoError(t, err)
		require.Equal(t, home.String(), x.ID)
	}
	_, err = p.hasty.AuditOf(ctx, client.AuditQuery{Project: home, Newest: true})
	require.Error(t, err, "nobody reads the log for others here")
	_, err = p.hasty.Audit(ctx, 0, 5)
	require.Error(t, err, "nobody reads the log for others here")
}

// operate asks what operators ask.
func (p *realPlane) operate(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	require.NoError(t, p.Live(ctx))
	doc, err := p.Document(ctx)
	require.NoError(t, err)
	require.Contains(t, string(doc), `"openapi"`)
	_, err = p.Ready(ctx)
	require.NoError(t, err)
	_, err = p.Metrics(ctx)
	require.Error(t, err)
	_, err = p.Profile(ctx, "heap")
	require.NoError(t, err)
	keys, err := p.Keys.List(ctx)
	require.NoError(t, err)
	require.Empty(t, keys)
	keys, err = p.Keys.Rotate(ctx, time.Hour)
	require.NoError(t, err)
	require.Len(t, keys, 1)
	for transition, code := range map[time.Duration]string{time.Second: api.CodeInvalidTransition, 48 * time.Hour: api.CodeKeyInTransition} {
		_, err = p.Keys.Rotate(ctx, transition)
		var refused *client.Problem
		require.ErrorAs(t, err, &refused)
		require.Equal(t, code, refused.Code)
	}
	rejected, err := p.Rejected(ctx, 0, 10)
	require.NoError(t, err)
	require.Empty(t, rejected.Items)

	p.recount(t)
	saved, err := p.Snapshots.Create(ctx)
	require.NoError(t, err)
	require.Equal(t, manifest.Digest, saved.Digest)
	origin, err := p.Compact(ctx, manifest.Seq, "history")
	require.NoError(t, err)
	require.Equal(t, [2]string{manifest.Chain, "history"}, [2]string{origin.Chain, origin.Archive})
	snapshots, err := p.Snapshots.List(ctx)
	require.NoError(t, err)
	require.Equal(t, []resource.Snapshot{saved}, snapshots)

	status, err := p.Status(ctx, true)
	require.NoError(t, err)
	require.Equal(t, status.Head, status.Applied)
	replayed, err := snapshot.Replay(ctx, p.log, t.TempDir(), p.opt, nil)
	require.NoError(t, err)
	require.Equal(t, snapshot.Result{Seq: status.Applied, Rows: 2, Digest: status.Digest}, replayed)
	for _, of := range []uuid.UUID{uuid.Nil, home} {
		for _, err := range p.hasty.Events(ctx, of, nil, 0) {
			require.Error(t, err, "likewise")
		}
	}
	_, err = p.hasty.SeqAt(ctx, time.Now())
	require.Error(t, err, "likewise")
}

// Of writers that race for one slug one wins, and of writers that race for one
// head each change lands on the one before or is told to look again.
func TestRacingWritersAreJudgedByTheLog(t *testing.T) {
	p := newRealPlane(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const writers = 20
	codes := make(chan string, writers)
	race := func(write func(i int) error) map[string]int {
		var wg sync.WaitGroup
		for i := range writers {
			wg.Go(func() {
				var problem *client.Problem
				switch err := write(i); {
				case err == nil:
					codes <- "ok"
				case errors.As(err, &problem):
					codes <- problem.Code
				default:
					codes <- err.Error()
				}
			})
		}
		wg.Wait()
		count := map[string]int{}
		for range writers {
			count[<-codes]++
		}
		return count
	}
	got := race(func(int) error { _, err := p.Policies.Create(ctx, home, webDraft("web")); return err })
	require.Equal(t, map[string]int{"ok": 1, "policy_slug_taken": writers - 1}, got)

	var made resource.Policy
	for made = range p.Policies.All(ctx, home) {
	}
	got = race(func(i int) error {
		name := fmt.Sprint(i)
		_, err := p.Policies.Revise(ctx, home, made.ID, resource.Patch{DisplayName: &name, ExpectedRevisionID: &made.HeadRevisionID})
		return err
	})
	require.Equal(t, map[string]int{"ok": 1, "revision_conflict": writers - 1}, got)

	// The same key from everywhere is one write, however it races.
	var mu sync.Mutex
	var ids []uuid.UUID
	got = race(func(int) error {
		made, err := p.Policies.Create(ctx, home, webDraft("db"), client.Key("k"))
		mu.Lock()
		defer mu.Unlock()
		ids = append(ids, made.ID)
		return err
	})
	require.Equal(t, map[string]int{"ok": writers}, got)
	require.Len(t, slices.Compact(ids), 1)
}

// recount holds the facts that the plane lists against those of its store.
func (p *realPlane) recount(t *testing.T) {
	t.Helper()
	for _, node := range []string{"", "n2", "never-seen"} {
		seq, listed, err := p.Facts(t.Context(), node)
		require.NoError(t, err)
		have, facts := p.fold.Facts(policy.NodeID(node))
		require.Equal(t, have, seq)
		var got, want []resource.Fact
		for f, err := range listed {
			require.NoError(t, err)
			got = append(got, f)
		}
		for f, err := range facts {
			require.NoError(t, err)
			want = append(want, resource.Fact{Kind: f.Kind, Key: f.Key, Values: f.Values})
		}
		require.Equal(t, want, got)
	}
}
