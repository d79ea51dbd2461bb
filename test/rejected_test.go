package test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
)

const strangerProject = "00000000-0000-4000-8000-00000000000f"

// wild is an event that somebody put on the log by hand, and the code it is
// rejected with; empty: it is none to reject.
type wild struct{ name, subject, body, code string }

// rejection is an entry of EDICT_REJECTED, and of /v1/rejected.
type rejection struct {
	Seq     uint64 `json:"seq"`
	Subject string `json:"subject"`
	Code    string `json:"code"`
	Detail  string `json:"detail"`
}

// nodeEvent and revisionEvent write events as any producer would.
func nodeEvent(project, node, more string) string {
	return fmt.Sprintf(`{"id":%q,"type":"node_updated","project_id":%q,"node_id":%q%s}`, uuid.NewString(), project, node, more)
}

type revisionEvent struct {
	project, policy, slug, parent string // parent "" is null
	source, rules                 string
}

func (e revisionEvent) String() string {
	parent := "null"
	if e.parent != "" {
		parent = `"` + e.parent + `"`
	}
	return fmt.Sprintf(`{"id":%q,"type":"policy_revision_created","project_id":%q,"policy_id":%q,"slug":%q,"display_name":"",`+
		`"revision":{"id":%q,"parent_id":%s,"selector":{"source":%q,"destination":"role=db"},"rules":[%s],`+
		`"created_at":"2026-11-20T12:00:00Z","created_by":"somebody","correlation_id":null}}`,
		uuid.NewString(), e.project, e.policy, e.slug, uuid.NewString(), parent, e.source, e.rules)
}

const goodRule = `{"action":"allow","protocol":"tcp","source_cidr":"10.0.0.0/8","destination_cidr":"10.1.0.0/16","ports":{"from":1,"to":2}}`

func wildNodes() []wild {
	mine := "edict.log." + defaultProject + ".node."
	with := func(more string) string { return nodeEvent(defaultProject, "a", more) }
	const facts = `,"labels":{},"addresses":[]`
	old := with(facts)
	return []wild{
		{"nothing", mine + "a", ``, "undecodable"},
		{"a word", mine + "a", `hello`, "undecodable"},
		{"bytes that are no text", mine + "a", "\xff\xfe\x00", "undecodable"},
		{"half an event", mine + "a", old[:len(old)/2], "undecodable"},
		{"two events", mine + "a", old + old, "undecodable"},
		{"a list", mine + "a", `[` + old + `]`, "undecodable"},
		{"a member twice", mine + "a", with(facts + `,"labels":{}`), "undecodable"},
		{"a member nobody knows", mine + "a", with(facts + `,"colour":"red"`), "undecodable"},
		{"labels that are a list", mine + "a", with(`,"labels":[],"addresses":[]`), "undecodable"},
		{"a type nobody knows", mine + "a", strings.Replace(old, "node_updated", "node_painted", 1), "unknown_type"},
		{"another node's subject", mine + "b", old, "subject_mismatch"},
		{"another project's subject", "edict.log." + strangerProject + ".node.a", old, "subject_mismatch"},
		{"a project that is none", "edict.log.mine.node.a", old, "subject_mismatch"},
		{"a node event on a policy's subject", "edict.log." + defaultProject + ".policy." + strangerProject, old, "subject_mismatch"},
		{"a node id with capitals", mine + "A", nodeEvent(defaultProject, "A", facts), "invalid"},
		{"a label key that is none", mine + "a", with(`,"labels":{"-":"x"},"addresses":[]`), "invalid"},
		{"an address that is none", mine + "a", with(`,"labels":{},"addresses":["10.0.0.0/8"]`), "invalid"},
		{"a good event", mine + "a", old, ""},
		{"a newer one", mine + "a", with(`,"labels":{"role":"web"},"addresses":[]`), ""},
		{"the older again", mine + "a", old, "stale_event"},
		{"a stranger's claim", "edict.log." + strangerProject + ".node.a", nodeEvent(strangerProject, "a", facts), "node_id_taken"},
	}
}

// wildPolicies are about a live policy of the slug web at head, and a deleted one.
func wildPolicies(live, head, deleted, last string) []wild {
	subject := func(project, policy string) string { return "edict.log." + project + ".policy." + policy }
	next := revisionEvent{defaultProject, live, "web", head, "role=web", goodRule}
	make1 := func(name, code string, change func(e *revisionEvent)) wild {
		e := next
		change(&e)
		return wild{name, subject(e.project, e.policy), e.String(), code}
	}
	rule := func(old, new string) func(e *revisionEvent) {
		return func(e *revisionEvent) { e.rules = strings.Replace(goodRule, old, new, 1) }
	}
	return []wild{
		make1("a parent nobody knows", "revision_conflict", func(e *revisionEvent) { e.parent = strangerProject }),
		make1("a second first revision", "policy_id_used", func(e *revisionEvent) { e.parent = "" }),
		make1("a deleted policy begun again", "policy_id_used", func(e *revisionEvent) { e.policy, e.slug, e.parent = deleted, "gone", "" }),
		make1("a deleted policy gone on with", "revision_conflict", func(e *revisionEvent) { e.policy, e.slug, e.parent = deleted, "gone", last }),
		make1("a taken slug", "policy_slug_taken", func(e *revisionEvent) { e.policy, e.parent = uuid.NewString(), "" }),
		make1("a stranger's revision", "policy_not_owned", func(e *revisionEvent) { e.project = strangerProject }),
		{"a stranger's deletion", subject(strangerProject, live), fmt.Sprintf(`{"id":%q,"type":"policy_deleted","project_id":%q,"policy_id":%q}`, uuid.NewString(), strangerProject, live), "policy_not_owned"},
		{"another policy's subject", subject(defaultProject, deleted), next.String(), "subject_mismatch"},
		{"half a revision", subject(defaultProject, live), next.String()[:200], "undecodable"},
		make1("no rules", "invalid", func(e *revisionEvent) { e.rules = "" }),
		make1("1,025 rules", "invalid", func(e *revisionEvent) { e.rules = strings.Repeat(goodRule+",", 1024) + goodRule }),
		make1("inverted ports", "invalid", rule(`"from":1`, `"from":3`)),
		make1("no ports", "invalid", rule(`,"ports":{"from":1,"to":2}`, ``)),
		make1("two families", "invalid", rule(`10.1.0.0/16`, `fd00::/8`)),
		make1("host bits", "invalid", rule(`10.0.0.0/8`, `10.0.0.1/8`)),
		make1("an action nobody knows", "invalid", rule(`allow`, `drop`)),
		make1("an empty selector", "invalid", func(e *revisionEvent) { e.source = "" }),
		make1("a selector of nonsense", "invalid", func(e *revisionEvent) { e.source = "a=b,," }),
		make1("a good revision", "", func(*revisionEvent) {}),
	}
}

// TestWildEventsAreRejectedOnce puts events straight on the log. Each bad one is
// rejected with its code, once, though two workers fold it; and the fold goes on.
func TestWildEventsAreRejectedOnce(t *testing.T) {
	p := serve(t)
	s := &story{process: p, policies: map[string]head{}}
	s.createWild("gone")
	s.createWild("web")
	s.do("DELETE", "/v1/projects/"+defaultProject+"/policies/"+s.policies["gone"].id, nil, 204)
	second := p.secondWorker()

	nc, err := nats.Connect("nats://" + p.nats)
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	events := append(wildNodes(), wildPolicies(s.policies["web"].id, s.policies["web"].revision, s.policies["gone"].id, s.policies["gone"].revision)...)
	want := map[uint64]wild{}
	var last uint64
	for _, e := range events {
		ack, err := js.Publish(t.Context(), e.subject, []byte(e.body))
		require.NoError(t, err, e.name)
		last = ack.Sequence
		if e.code != "" {
			want[last] = e
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	require.NoError(t, second.Wait(ctx, last))
	require.Eventually(t, func() bool { return p.status("").Rejected == uint64(len(want)) }, 20*time.Second, 10*time.Millisecond)

	listed := p.rejections()
	require.Len(t, listed, len(want))
	for _, r := range listed {
		e := want[r.Seq]
		require.Equal(t, e.code, r.Code, "%s: %s", e.name, r.Detail)
		require.Equal(t, e.subject, r.Subject)
		require.NotEmpty(t, r.Detail)
	}
	p.storedOnce(js, listed)

	s.do("PUT", "/v1/projects/"+defaultProject+"/nodes/after", map[string]any{"labels": map[string]string{"role": "web"}}, 201)
	digest, err := func() (projector.Digest, error) {
		require.NoError(t, second.Wait(ctx, last+1))
		return second.Digest(ctx)
	}()
	require.NoError(t, err)
	require.Equal(t, p.status("?digest=true").Digest, hex.EncodeToString(digest.Sum[:]), "two workers hold the same world")

	p.kill()
	p.start()
	require.Equal(t, listed, p.rejections(), "still the same after a crash")
	p.storedOnce(js, listed)
}

// createWild publishes a policy over HTTP and remembers its ids.
func (s *story) createWild(slug string) {
	s.t.Helper()
	var made struct {
		ID   string `json:"id"`
		Head string `json:"head_revision_id"`
	}
	body := fmt.Sprintf(`{"slug":%q,"selector":{"source":"role=web","destination":"role=db"},"rules":[%s]}`, slug, goodRule)
	require.NoError(s.t, json.Unmarshal(s.do("POST", "/v1/projects/"+defaultProject+"/policies", []byte(body), 201), &made))
	s.policies[slug] = head{made.ID, made.Head}
}

// rejections are what the plane lists, page by page.
func (p *process) rejections() []rejection {
	p.t.Helper()
	var all []rejection
	for after := "0"; ; {
		var page struct {
			Items []rejection `json:"items"`
			Next  *string     `json:"next_cursor"`
		}
		require.NoError(p.t, json.Unmarshal(p.do("GET", "/v1/rejected?limit=7&after="+after, nil, 200), &page))
		all = append(all, page.Items...)
		if page.Next == nil {
			return all
		}
		after = *page.Next
	}
}

// storedOnce wants each rejection in its stream, at its subject, exactly once.
func (p *process) storedOnce(js jetstream.JetStream, listed []rejection) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 30*time.Second)
	defer cancel()
	var stream jetstream.Stream
	require.Eventually(p.t, func() bool { // the server may have been away
		var err error
		if stream, err = js.Stream(ctx, "EDICT_REJECTED"); err != nil {
			return false
		}
		info, err := stream.Info(ctx)
		return err == nil && info.State.Msgs >= uint64(len(listed))
	}, 20*time.Second, 10*time.Millisecond)
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter("edict.rejected.>"))
	require.NoError(p.t, err)
	require.Equal(p.t, uint64(len(listed)), info.State.Msgs)
	for _, r := range listed {
		subject := fmt.Sprintf("edict.rejected.%d", r.Seq)
		require.Equal(p.t, uint64(1), info.State.Subjects[subject], subject)
		m, err := stream.GetLastMsgForSubject(ctx, subject)
		require.NoError(p.t, err)
		var stored rejection
		require.NoError(p.t, json.Unmarshal(m.Data, &stored), "%s", bytes.TrimSpace(m.Data))
		require.Equal(p.t, r, stored)
	}
}

// secondWorker folds the same log in this process and reports what it rejects,
// in a race with the first.
func (p *process) secondWorker() *projector.Projector {
	p.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	conn, err := streams.Connect(ctx, streams.ConnectOptions{URL: "nats://" + p.nats, Name: "second"})
	require.NoError(p.t, err)
	log, err := streams.OpenLog(ctx, conn, streams.LogOptions{})
	require.NoError(p.t, err)
	rejected, err := streams.OpenRejected(ctx, conn)
	require.NoError(p.t, err)
	fold, err := projector.Open(p.t.TempDir(), projector.Options{Partitions: log.Partitions(), Created: log.Created(), First: log.First()})
	require.NoError(p.t, err)
	done := make(chan error, 2)
	go func() { done <- fold.Run(ctx, log) }()
	go func() {
		for ctx.Err() == nil {
			changed := fold.Changed()
			list, err := fold.Unreported(100)
			for _, r := range list {
				if err == nil {
					err = rejected.Write(ctx, r)
				}
			}
			if err == nil && len(list) > 0 {
				err = fold.Reported(list[len(list)-1].Seq)
			}
			if err != nil && ctx.Err() == nil {
				done <- err
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
		done <- nil
	}()
	p.t.Cleanup(func() {
		stop()
		for range 2 {
			require.NoError(p.t, <-done)
		}
		require.NoError(p.t, fold.Close())
		conn.Close()
	})
	return fold
}
