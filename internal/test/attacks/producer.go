package attacks

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// Sent is an event that a producer may append and that must come to nothing.
type Sent struct {
	What string
	Seq  uint64 // where it stands
	Code string // that the fold rejects it with
}

// OverTheLog has mallory append what is hers to append, and means the victim.
func (p *Plane) OverTheLog(t testing.TB) (all []Sent) {
	t.Helper()
	nc, err := p.Connect(t, "mallory")
	require.NoError(t, err)
	node := func(name string) string { return "edict.log." + AttackerProject + ".node." + name }
	update := func(project, name string) string {
		return fmt.Sprintf(`{"id":%q,"type":"node_updated","project_id":%q,"node_id":%q,"labels":{},"addresses":[]}`, uuid.NewString(), project, name)
	}
	pol := func(id string) string { return "edict.log." + AttackerProject + ".policy." + id }
	revise := func(project, id, parent string) string {
		return fmt.Sprintf(`{"id":%q,"type":"policy_revision_created","project_id":%q,"policy_id":%q,"slug":"web","display_name":"x","revision":{"id":%q,"parent_id":%s,`+
			`"selector":{"source":"a","destination":"b"},"rules":[{"action":"allow","protocol":"any","source_cidr":"0.0.0.0/0","destination_cidr":"0.0.0.0/0"}],`+
			`"created_at":"2026-11-20T12:00:00Z","created_by":"alice","correlation_id":null}}`, uuid.NewString(), project, id, uuid.NewString(), parent)
	}
	deleted := func(project, id string) string {
		return fmt.Sprintf(`{"id":%q,"type":"policy_deleted","project_id":%q,"policy_id":%q}`, uuid.NewString(), project, id)
	}
	fresh := uuid.NewString()
	for _, a := range []struct{ what, subject, body, code string }{
		{"a node of the victim's, under her project", node(VictimNode), update(AttackerProject, VictimNode), "node_id_taken"},
		{"a node of the victim's, under the victim's project", node(VictimNode), update(VictimProject, VictimNode), "subject_mismatch"},
		{"a node of the victim's, on another subject", node("x"), update(AttackerProject, VictimNode), "subject_mismatch"},
		{"the end of a node of the victim's", node(VictimNode), strings.Replace(strings.Replace(update(AttackerProject, VictimNode), "updated", "removed", 1), `,"labels":{},"addresses":[]`, "", 1), "node_id_taken"},
		{"the victim's policy, as if it were new", pol(p.Policy), revise(AttackerProject, p.Policy, "null"), "policy_not_owned"},
		{"the victim's policy, after its head", pol(p.Policy), revise(AttackerProject, p.Policy, `"`+p.Revision+`"`), "policy_not_owned"},
		{"the victim's policy, under its project", pol(p.Policy), revise(VictimProject, p.Policy, `"`+p.Revision+`"`), "subject_mismatch"},
		{"a new policy in the victim's project", pol(fresh), revise(VictimProject, fresh, "null"), "subject_mismatch"},
		{"the end of the victim's policy", pol(p.Policy), deleted(AttackerProject, p.Policy), "policy_not_owned"},
		{"the end of it, under its project", pol(p.Policy), deleted(VictimProject, p.Policy), "subject_mismatch"},
		{"a principal, where a node belongs", node("x"), `{"id":"` + fresh + `","type":"relation_written","subject":"mallory","relation":"plane#admin"}`, "*"},
		{"nothing", node("x"), ``, "undecodable"},
		{"no JSON", node("x"), `nonsense`, "undecodable"},
		{"half a document", node("x"), update(AttackerProject, "x")[:40], "undecodable"},
		{"a member twice", node("x"), strings.Replace(update(AttackerProject, "x"), `"labels"`, `"node_id":"x","labels"`, 1), "undecodable"},
		{"a deep one", node("x"), strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000), "undecodable"},
		{"an unknown type", node("x"), `{"id":"` + fresh + `","type":"node_hidden"}`, "unknown_type"},
		{"bad labels", node("x"), strings.Replace(update(AttackerProject, "x"), `"labels":{}`, `"labels":{"\u202e":"x"}`, 1), "invalid"},
		{"too many addresses", node("x"), strings.Replace(update(AttackerProject, "x"), `[]`, `[`+strings.Repeat(`"10.0.0.1",`, 200)+`"10.0.0.1"]`, 1), "invalid"},
		{"a policy without rules", pol(fresh), strings.Replace(revise(AttackerProject, fresh, "null"), `[{"action":"allow","protocol":"any","source_cidr":"0.0.0.0/0","destination_cidr":"0.0.0.0/0"}]`, `[]`, 1), "invalid"},
		{"an event of a release that is not made yet", node("x"), strings.Replace(update(AttackerProject, "x"), `"node_updated"`, `"node_updated_2"`, 1), "unknown_type"},
	} {
		p.tried++
		all = append(all, Sent{a.what, p.append(t, nc, a.subject, a.body), a.code})
	}
	// What has the server answer to a place of the attacker's choice.
	for _, reply := range []string{"edict.node." + VictimNode + ".x", "edict.log." + VictimProject + ".node." + VictimNode, "$JS.API.STREAM.PURGE.EDICT_LOG", "_INBOX.victim.x", "edict.report.node." + VictimNode, "edict.log.access.mallory"} {
		p.tried++
		require.NoError(t, nc.PublishMsg(&nats.Msg{Subject: node("x"), Reply: reply, Data: []byte("nonsense")}))
		require.NoError(t, nc.FlushTimeout(10*time.Second))
		all = append(all, Sent{"an answer to " + reply, 0, "undecodable"})
	}
	// So does a verdict; whatever it is answered to, nothing is stored.
	for _, reply := range []string{"edict.log." + VictimProject + ".node." + VictimNode, "edict.log.access.mallory", "edict.verdict." + VictimProject + ".1", "edict.node." + VictimNode + ".x"} {
		p.tried++
		require.NoError(t, nc.PublishMsg(&nats.Msg{Subject: "edict.verdict." + AttackerProject + ".1", Reply: reply}))
		require.NoError(t, nc.FlushTimeout(10*time.Second))
	}
	// What no server of the plane's takes.
	p.tried++
	if nc.PublishMsg(&nats.Msg{Subject: node("x"), Data: make([]byte, nc.MaxPayload()+1)}) == nil {
		p.allowed(t, "mallory", "a message above max_payload")
	}
	return all
}

// append publishes an event and waits for the log's answer.
func (p *Plane) append(t testing.TB, nc *nats.Conn, subject, body string) (seq uint64) {
	t.Helper()
	answer, err := nc.RequestMsg(&nats.Msg{Subject: subject, Data: []byte(body)}, 10*time.Second)
	require.NoError(t, err, subject)
	var ack struct {
		Seq   uint64
		Error struct{ Description string }
	}
	require.NoError(t, json.Unmarshal(answer.Data, &ack), "%s", answer.Data)
	require.Empty(t, ack.Error.Description)
	return ack.Seq
}
