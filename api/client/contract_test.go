package client_test

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/internal/test/contract"
)

// calls is every operation of the API by its method here; what it returns is
// what it read.
func calls(c *client.Client) map[string]func(ctx context.Context) (any, error) {
	id := uuid.MustParse("01900000-0000-7000-8000-000000000009")
	read := func(b []byte, err error) (any, error) { return json.RawMessage(b), err }
	done := func(err error) (any, error) { return nil, err }
	return map[string]func(ctx context.Context) (any, error){
		"createPolicy": func(ctx context.Context) (any, error) { return c.Policies.Create(ctx, id, resource.Draft{}) },
		"listPolicies": func(ctx context.Context) (any, error) { return c.Policies.List(ctx, id, client.Page{}) },
		"getPolicy":    func(ctx context.Context) (any, error) { return c.Policies.GetAt(ctx, id, id, "1") },
		"revisePolicy": func(ctx context.Context) (any, error) { return c.Policies.Revise(ctx, id, id, resource.Patch{}) },
		"deletePolicy": func(ctx context.Context) (any, error) { return done(c.Policies.Delete(ctx, id, id)) },
		"listRevisions": func(ctx context.Context) (any, error) {
			return c.Policies.Revisions(ctx, id, id, client.Page{Limit: 3, Cursor: "x"})
		},
		"getRevision":     func(ctx context.Context) (any, error) { return c.Policies.Revision(ctx, id, id, id) },
		"diffRevisions":   func(ctx context.Context) (any, error) { return c.Policies.Diff(ctx, id, id, id, id) },
		"dryRunPolicy":    func(ctx context.Context) (any, error) { return c.Policies.DryRun(ctx, id, id, resource.Preview{}) },
		"dryRunNewPolicy": func(ctx context.Context) (any, error) { return c.Policies.DryRunNew(ctx, id, resource.NewPreview{}) },
		"listNodes":       func(ctx context.Context) (any, error) { return c.Nodes.List(ctx, id, "a", client.Page{}) },
		"getNode":         func(ctx context.Context) (any, error) { return c.Nodes.Get(ctx, id, "n1") },
		"listAllNodes": func(ctx context.Context) (any, error) {
			return c.Nodes.Reported(ctx, client.ReportQuery{Selector: "a", States: []string{"lagging", "silent"}}, client.Page{Limit: 3})
		},
		"countNodes": func(ctx context.Context) (any, error) {
			return c.Nodes.Count(ctx, client.ReportQuery{Selector: "a"}, "zone", 3)
		},
		"countProjectNodes": func(ctx context.Context) (any, error) {
			return c.Nodes.Count(ctx, client.ReportQuery{Project: id}, "", 0)
		},
		"putNode": func(ctx context.Context) (any, error) {
			n, _, err := c.Nodes.Put(ctx, id, "n1", resource.Facts{})
			return n, err
		},
		"deleteNode": func(ctx context.Context) (any, error) { return done(c.Nodes.Delete(ctx, id, "n1")) },
		"putNodes":   func(ctx context.Context) (any, error) { return c.Nodes.Import(ctx, id, strings.NewReader("{}")) },
		"getNodeState": func(ctx context.Context) (any, error) {
			s, err := c.Nodes.State(ctx, "n1", client.StateQuery{MinSeq: 3, ETag: "x"})
			if err != nil {
				return nil, err
			}
			var typed resource.NodeState // what callers read it into
			return &typed, json.Unmarshal(s.Body, &typed)
		},
		"getNodeDatapath": func(ctx context.Context) (any, error) {
			t, err := c.Datapath.Table(ctx, "n1", client.TableQuery{StateQuery: client.StateQuery{MinSeq: 3, ETag: "x"}})
			if err != nil {
				return nil, err
			}
			var typed resource.Datapath
			return &typed, json.Unmarshal(t.Body, &typed)
		},
		"explainFlow": func(ctx context.Context) (any, error) {
			return c.Datapath.Explain(ctx, "n1", client.Flow{Direction: "ingress", Peer: "n2", Protocol: "tcp", Port: 443})
		},
		"listNodePolicies": func(ctx context.Context) (any, error) { return c.Nodes.Policies(ctx, "n1", true) },
		"diffNode":         func(ctx context.Context) (any, error) { return c.Nodes.Diff(ctx, "n1", "3", "2026-11-17T12:00:00Z") },
		"listNodeRulesets": func(ctx context.Context) (any, error) {
			items, err := c.Nodes.Rulesets(ctx, "n1")
			return resource.Items[resource.Ruleset]{Items: items}, err
		},
		"listNodeArtifacts": func(ctx context.Context) (any, error) {
			items, _, err := c.Nodes.Artifacts(ctx, "n1")
			return resource.Items[resource.Artifact]{Items: items}, err
		},
		"releaseArtifacts": func(ctx context.Context) (any, error) { return c.Releases.Create(ctx, id, strings.NewReader("{}")) },
		"listReleases":     func(ctx context.Context) (any, error) { return c.Releases.List(ctx, id, client.Page{}) },
		"getRelease": func(ctx context.Context) (any, error) {
			items, err := c.Releases.Get(ctx, id, "n1", 7)
			return resource.Items[resource.Artifact]{Items: items}, err
		},
		"withdrawArtifact": func(ctx context.Context) (any, error) {
			return done(c.Releases.Withdraw(ctx, id, "n1", "vertex", "flor"))
		},
		"listRetes": func(ctx context.Context) (any, error) {
			items, err := c.Releases.Retes(ctx, id)
			return resource.Items[resource.Rete]{Items: items}, err
		},
		"followNode": func(ctx context.Context) (any, error) {
			events, err := c.Nodes.Events(ctx, "n1", "3")
			if err != nil {
				return nil, err
			}
			return nil, events.Close()
		},
		"reportApplied": func(ctx context.Context) (any, error) {
			return done(c.Nodes.ReportApplied(ctx, "n1", resource.Applied{Version: 3, Fingerprint: compiler.Empty.Fingerprint.String()}))
		},
		"createAdmissionPolicy": func(ctx context.Context) (any, error) {
			return c.Admission.Create(ctx, json.RawMessage("{}"))
		},
		"listAdmissionPolicies": func(ctx context.Context) (any, error) {
			return c.Admission.List(ctx, url.Values{"name": {"n"}}, client.Page{})
		},
		"getAdmissionPolicy": func(ctx context.Context) (any, error) { return c.Admission.Get(ctx, "p") },
		"replaceAdmissionPolicy": func(ctx context.Context) (any, error) {
			return c.Admission.Replace(ctx, "p", json.RawMessage("{}"), 7)
		},
		"deleteAdmissionPolicy": func(ctx context.Context) (any, error) { return done(c.Admission.Delete(ctx, "p")) },
		"evaluate":              func(ctx context.Context) (any, error) { return c.Admission.Evaluate(ctx, json.RawMessage("{}"), true) },
		"listDecisions": func(ctx context.Context) (any, error) {
			return c.Admission.Decisions(ctx, url.Values{"user": {"ana"}}, client.Page{})
		},
		"explainDecision": func(ctx context.Context) (any, error) { return c.Admission.ExplainDecision(ctx, 7) },
		"followDecisions": func(ctx context.Context) (any, error) {
			events, err := c.Admission.DecisionEvents(ctx, url.Values{"user": {"ana"}}, "3")
			if err != nil {
				return nil, err
			}
			return nil, events.Close()
		},
		"followEvents": func(ctx context.Context) (any, error) {
			return nil, over(c.Events(ctx, uuid.Nil, url.Values{"type": {"node_updated"}}, 3))
		},
		"followProjectEvents": func(ctx context.Context) (any, error) {
			return nil, over(c.Events(ctx, id, url.Values{"node": {"n1"}}, 0))
		},
		"followFleet": func(ctx context.Context) (any, error) {
			for s, err := range c.FleetEvents(ctx) {
				return s, err
			}
			return nil, nil
		},
		"getFleetHistory": func(ctx context.Context) (any, error) { return c.FleetHistory(ctx) },
		"seqAt":           func(ctx context.Context) (any, error) { return c.SeqAt(ctx, time.Unix(1, 0)) },
		"stageRevision":   func(ctx context.Context) (any, error) { return c.Policies.Stage(ctx, id, id, resource.Preview{}) },
		"promoteRevision": func(ctx context.Context) (any, error) {
			return c.Policies.Promote(ctx, id, id, resource.Promotion{RevisionID: &id, Waves: []string{"a"}})
		},
		"openWave": func(ctx context.Context) (any, error) {
			return c.Policies.OpenWave(ctx, id, id, resource.NextWave{RevisionID: &id, Wave: 2})
		},
		"abortRollout": func(ctx context.Context) (any, error) {
			return c.Policies.Abort(ctx, id, id, resource.Abort{RevisionID: &id, Reason: "r"})
		},
		"getRollout":        func(ctx context.Context) (any, error) { return c.Policies.Rollout(ctx, id, id, 5) },
		"createSessionLink": func(ctx context.Context) (any, error) { return c.SessionLink(ctx) },
		"openSession":       func(ctx context.Context) (any, error) { return c.OpenSession(ctx, "code") },
		"getSignIn":         func(ctx context.Context) (any, error) { return c.SignIn(ctx) },
		"closeSession":      func(ctx context.Context) (any, error) { return nil, c.CloseSession(ctx) },
		"getSelf":           func(ctx context.Context) (any, error) { return c.Self(ctx) },
		"listPrincipals": func(ctx context.Context) (any, error) {
			return c.Principals.List(ctx, client.Page{})
		},
		"getPrincipal": func(ctx context.Context) (any, error) { return c.Principals.Get(ctx, "ana") },
		"putPrincipal": func(ctx context.Context) (any, error) {
			return c.Principals.Put(ctx, "ana", resource.PrincipalDocument{Kind: "person"}, 0)
		},
		"deletePrincipal": func(ctx context.Context) (any, error) { return done(c.Principals.Delete(ctx, "ana")) },
		"writeRelation":   func(ctx context.Context) (any, error) { return c.Principals.WriteRelation(ctx, "ana", "plane#read") },
		"removeRelation": func(ctx context.Context) (any, error) {
			return done(c.Principals.RemoveRelation(ctx, "ana", "plane#read"))
		},
		"listProjectAudit": func(ctx context.Context) (any, error) {
			return c.AuditOf(ctx, client.AuditQuery{Project: id, Newest: true, Before: 3, Since: time.Unix(1, 0), Principal: "ana", Type: "node_updated"})
		},
		"listAudit":    func(ctx context.Context) (any, error) { return c.Audit(ctx, 3, 5) },
		"getStatus":    func(ctx context.Context) (any, error) { return c.Status(ctx, true) },
		"listRejected": func(ctx context.Context) (any, error) { return c.Rejected(ctx, 3, 5) },
		"listKeys": func(ctx context.Context) (any, error) {
			items, err := c.Keys.List(ctx)
			return resource.Items[resource.Key]{Items: items}, err
		},
		"rotateKey": func(ctx context.Context) (any, error) {
			items, err := c.Keys.Rotate(ctx, time.Hour)
			return resource.Items[resource.Key]{Items: items}, err
		},
		"listFacts": func(ctx context.Context) (any, error) {
			_, facts, err := c.Facts(ctx, "n1")
			if err != nil {
				return nil, err
			}
			for _, err := range facts {
				if err != nil {
					return nil, err
				}
			}
			return nil, nil
		},
		"listProjects":   func(ctx context.Context) (any, error) { return c.Projects.List(ctx, client.Page{Limit: 5}) },
		"getProject":     func(ctx context.Context) (any, error) { return c.Projects.Get(ctx, project) },
		"archiveProject": func(ctx context.Context) (any, error) { return c.Projects.Archive(ctx, id) },
		"putProjectQuota": func(ctx context.Context) (any, error) {
			return c.Projects.SetQuota(ctx, project, resource.Quota{Nodes: 5})
		},
		"compactLog":     func(ctx context.Context) (any, error) { return c.Compact(ctx, 3, "history") },
		"createSnapshot": func(ctx context.Context) (any, error) { return c.Snapshots.Create(ctx) },
		"listSnapshots": func(ctx context.Context) (any, error) {
			items, err := c.Snapshots.List(ctx)
			return resource.Items[resource.Snapshot]{Items: items}, err
		},
		"livez":       func(ctx context.Context) (any, error) { return done(c.Live(ctx)) },
		"readyz":      func(ctx context.Context) (any, error) { return c.Ready(ctx) },
		"metrics":     func(ctx context.Context) (any, error) { _, err := c.Metrics(ctx); return nil, err },
		"getProfile":  func(ctx context.Context) (any, error) { _, err := c.Profile(ctx, "heap"); return nil, err },
		"getDocument": func(ctx context.Context) (any, error) { return read(c.Document(ctx)) },
	}
}

// agentsOwn are the operations that plexd alone asks for, and internal/test/plexd in its
// place.
var agentsOwn = []string{
	"registerNode", "heartbeat", "reportDrift", "putStateReport", "deleteStateReport", "deregisterNode", "putCapabilities", "putEndpoint", "postMetrics", "postLogs", "postAudit",
}

// browsersOwn are where browsers go.
var browsersOwn = []string{"beginSignIn", "endSignIn"}

// The client is written by hand; this proves it against the document. Every
// operation has a method, which asks for what the operation takes, and reads an
// answer made from the schema without losing a member.
func TestTheClientSpeaksTheDocument(t *testing.T) {
	doc, err := contract.Document()
	require.NoError(t, err)
	c, err := contract.New(doc)
	require.NoError(t, err)
	var asked string
	var told []byte
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		op, res, body, err := c.Example(r)
		if err == nil {
			err = c.Check(r, nil, res, body)
		}
		if err == nil {
			err = c.CheckParameters(r)
		}
		if err != nil {
			t.Error(err)
			return
		}
		asked, told = op, body
		for name, v := range res.Header {
			w.Header()[name] = v
		}
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(res.StatusCode)
		_, _ = w.Write(body)
	}))
	t.Cleanup(s.Close)
	cl, err := client.New(s.URL, client.Options{HTTP: s.Client(), Principal: "ann"})
	require.NoError(t, err)
	methods := calls(cl)
	for _, op := range c.Operations() {
		if strings.HasPrefix(op, "alpha") || slices.Contains(agentsOwn, op) || slices.Contains(browsersOwn, op) {
			continue // the surface of existing clients
		}
		t.Run(op, func(t *testing.T) {
			call, ok := methods[op]
			require.True(t, ok, "the client has no method for operation %s", op)
			got, err := call(t.Context())
			require.NoError(t, err)
			require.Equal(t, op, asked)
			if got == nil {
				return
			}
			again, err := json.Marshal(got)
			require.NoError(t, err)
			require.JSONEq(t, string(told), string(again), "nothing is lost in reading")
		})
	}
}

// over reads a sequence to its end.
func over[T any](of iter.Seq2[T, error]) error {
	for _, err := range of {
		if err != nil {
			return err
		}
	}
	return nil
}
