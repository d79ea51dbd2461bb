package oracle

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestACourtJudgesAsTheRulesSay goes through one history: each line is an event of
// policy p or node n and what it deserves.
func TestACourtJudgesAsTheRulesSay(t *testing.T) {
	const mine, others = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"
	node := func(project, says, id, labels string) (subject, body string) {
		return "edict.log." + project + ".node.n", fmt.Sprintf(`{"id":%q,"type":"node_updated","project_id":%q,"node_id":"n","labels":%s,"addresses":[]}`, id, says, labels)
	}
	gone := func(id string) (subject, body string) {
		return "edict.log." + mine + ".node.n", fmt.Sprintf(`{"id":%q,"type":"node_removed","project_id":%q,"node_id":"n"}`, id, mine)
	}
	revision := func(project, policy, slug, id, parent, rules string) (subject, body string) {
		return "edict.log." + project + ".policy." + policy, fmt.Sprintf(`{"id":"e-%s","type":"policy_revision_created","project_id":%q,"policy_id":%q,"slug":%q,"display_name":"",`+
			`"revision":{"id":%q,"parent_id":%s,"rules":[%s]}}`, id, project, policy, slug, id, parent, rules)
	}
	deleted := func(policy string) (subject, body string) {
		return "edict.log." + mine + ".policy." + policy, fmt.Sprintf(`{"id":"d","type":"policy_deleted","project_id":%q,"policy_id":%q}`, mine, policy)
	}
	raw := func(body string) (subject, text string) { return "edict.log." + mine + ".node.n", body }
	const anyRule = `{"action":"allow","protocol":"any","source_cidr":"10.0.0.0/8","destination_cidr":"10.0.0.0/8"}`
	var court Court
	says := func(want string) func(subject, body string) {
		return func(subject, body string) {
			t.Helper()
			got, judged := court.Judge(subject, []byte(body))
			require.True(t, judged)
			require.Equal(t, want, got, body)
		}
	}
	says("undecodable")(raw(`nonsense`))
	says("undecodable")(raw(`{"type":"node_updated","nodes":1}`))
	says("unknown_type")(raw(`{"type":"node_mislaid"}`))
	says("subject_mismatch")(node(mine, others, "1", `{}`))
	says("invalid")(node(mine, mine, "1", `{"-":""}`))
	says("")(gone("0"))
	says("")(node(mine, mine, "1", `{"a":"b"}`))
	says("")(node(mine, mine, "1", `{"a":"b"}`)) // met again
	says("node_id_taken")(node(others, others, "2", `{}`))
	says("")(node(mine, mine, "3", `{}`))
	says("stale_event")(node(mine, mine, "1", `{"a":"b"}`))
	says("")(gone("4"))
	says("")(gone("5"))

	says("invalid")(revision(mine, "p", "s", "r1", "null", ``))
	says("invalid")(revision(mine, "p", "s", "r1", "null", `{"action":"allow","protocol":"any","source_cidr":"10.0.0.1/8","destination_cidr":"10.0.0.0/8"}`))
	says("invalid")(revision(mine, "p", "s", "r1", "null", `{"action":"allow","protocol":"tcp","source_cidr":"10.0.0.0/8","destination_cidr":"10.0.0.0/8"}`))
	says("revision_conflict")(revision(mine, "p", "s", "r1", `"r0"`, anyRule))
	says("")(revision(mine, "p", "s", "r1", "null", anyRule))
	says("")(revision(mine, "p", "s", "r1", "null", anyRule)) // met again
	says("policy_id_used")(revision(mine, "p", "s", "r2", "null", anyRule))
	says("policy_slug_taken")(revision(mine, "q", "s", "r3", "null", anyRule))
	says("")(revision(others, "o", "s", "r4", "null", anyRule))
	says("policy_not_owned")(revision(mine, "o", "s2", "r5", "null", anyRule))
	says("")(revision(mine, "p", "s3", "r6", `"r1"`, anyRule))
	says("revision_conflict")(revision(mine, "p", "s3", "r7", `"r1"`, anyRule))
	says("")(revision(mine, "q", "s", "r8", "null", anyRule)) // it was left
	says("")(deleted("p"))
	says("")(deleted("p"))
	says("revision_conflict")(revision(mine, "p", "s3", "r9", `"r6"`, anyRule))
	says("policy_id_used")(revision(mine, "p", "s3", "r9", "null", anyRule))
	says("")(revision(mine, "z", "s3", "r10", "null", anyRule))
	_, judged := court.Judge("edict.log.access.alice", []byte(`{}`))
	require.False(t, judged)
}
