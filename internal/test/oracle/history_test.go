package oracle_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/oracle"
	"github.com/edictdev/edict/policy"
)

const base = 1000

// told folds events from sequence 1 on.
func told(t *testing.T, events ...string) *oracle.History {
	t.Helper()
	h := oracle.NewHistory(base)
	for i, e := range events {
		require.NoError(t, h.Apply(uint64(i+1), []byte(e)), e)
	}
	return h
}

func rule(port int) string {
	return fmt.Sprintf(`[{"action":"allow","protocol":"tcp","source_cidr":"10.0.0.0/8","destination_cidr":"10.1.0.0/16","ports":{"from":%d,"to":%d}}]`, port, port)
}

func released(node string, documents ...string) string {
	list := ""
	for i, d := range documents {
		if i > 0 {
			list += ","
		}
		list += d
	}
	return `{"type":"artifact_released","project_id":"` + project + `","node_id":"` + node + `","artifacts":[` + list + `]}`
}

func document(name, text string) string {
	return `{"kind":"vertex","name":"` + name + `","payload":"` + text + `"}`
}

func removed(node string) string {
	return `{"type":"node_removed","project_id":"` + project + `","node_id":"` + node + `"}`
}

func row(seq uint64, number uint32) policy.EventID { return policy.NewEventID(base, seq, number) }

func TestWhatEachEventChangesForANode(t *testing.T) {
	h := told(t,
		updated(project, "n", `{"role":"web"}`),
		created(project, first, "r1", "role=web", "x", rule(1)),
		created(project, second, "r2", "role", "x", rule(2)),
		created(project, second, "r3", "role", "x", rule(2)),   // nothing but the revision
		created(project, first, "r4", "role=db", "x", rule(1)), // lets go
		updated(project, "n", `{"role":"db"}`),                 // gains first, keeps second
		`{"type":"policy_deleted","policy_id":"`+second+`"}`,   //
		removed("n"), updated(project, "n", `{"role":"db"}`), // goes and comes
		created(project, first, "r5", "role in (db)", "x", rule(3)), // spelled otherwise
	)
	type line struct {
		id       policy.EventID
		gone     bool
		revision string
	}
	var lines []line
	for _, c := range h.Changes("n") {
		lines = append(lines, line{c.ID, c.Gone, c.Revision})
	}
	require.Equal(t, []line{
		{row(2, 0), false, "r1"},
		{row(3, 1), false, "r2"},
		{row(5, 0), true, "r4"},
		{row(6, 0), false, "r4"},
		{row(7, 1), true, "r3"},
		{row(8, 0), true, "r4"},
		{row(9, 0), false, "r4"},
		{row(10, 0), false, "r5"},
	}, lines)
	require.Empty(t, h.Changes("other"))
}

func TestWhatAnIDMayTell(t *testing.T) {
	h := told(t,
		updated(project, "n", `{"role":"web"}`),
		created(project, first, "r1", "role", "x", rule(1)),
		created(project, first, "r2", "role", "x", rule(1)),    // no more than a revision
		updated(project, "n", `{"role":"db"}`),                 // the row stays
		created(project, first, "r3", "role=db", "x", rule(1)), // and again
		created(project, first, "r4", "role=web", "x", rule(1)),
	)
	for seq, revision := range map[uint64]string{2: "r1", 4: "r2", 5: "r3"} {
		got, ok := h.Tells("n", row(seq, 0))
		require.True(t, ok, "event %d", seq)
		require.Equal(t, revision, got.Revision)
		require.False(t, got.Gone)
	}
	got, ok := h.Tells("n", row(6, 0))
	require.True(t, ok)
	require.True(t, got.Gone)
	for _, id := range []policy.EventID{row(1, 0), row(3, 0), row(7, 0), row(2, 1), policy.NewEventID(1, 0, 0)} {
		_, ok := h.Tells("n", id)
		require.False(t, ok, "%s", id)
	}
}

func TestArtifactsAreNumberedByTheirSet(t *testing.T) {
	a, b := document("a", "1"), document("b", "1")
	h := told(t,
		updated(project, "n", `{}`),
		released("n", b),
		released("n", b, a), // a stands before b now
		`{"type":"artifact_withdrawn","node_id":"n","kind":"vertex","name":"a"}`,
		removed("n"),
		released("n", a), // b goes while the node is away
		updated(project, "n", `{}`),
	)
	var ids []policy.EventID
	for _, c := range h.Changes("n") {
		ids = append(ids, c.ID)
	}
	A, W := uint32(policy.NumberArtifact), uint32(policy.NumberWithdrawn)
	require.Equal(t, []policy.EventID{row(2, A), row(3, A), row(4, W), row(5, W), row(7, A)}, ids)
	got, ok := h.Tells("n", row(3, A+1))
	require.True(t, ok, "b may be told again with the set that holds it")
	require.Equal(t, b+"\n", got.Body)
	got, ok = h.Tells("n", row(6, W))
	require.True(t, ok, "what was taken from a node that was away")
	require.Equal(t, oracle.Thing{Kind: "vertex", Name: "b"}, got.Thing)
	_, ok = h.Tells("n", row(6, A))
	require.False(t, ok, "nobody is told of it while away")
}

func TestWhoMustPull(t *testing.T) {
	h := told(t, updated(project, "n", `{}`), updated(project, "n", `{"a":"b"}`), updated(other, "m", `{}`))
	end := policy.EndOf(base, 1)
	require.False(t, h.MustPull(end, 0))
	require.True(t, h.MustPull(end, 1), "it stands in what was dropped")
	require.True(t, h.MustPull(end, 0, 1), "below a loss")
	require.True(t, h.MustPull(policy.EndOf(base, 4), 0), "beyond the end")
	require.True(t, h.MustPull(policy.EndOf(base-1, 0), 0), "of another log")
	require.True(t, h.TableMay("n", 1, 3))
	require.False(t, h.TableMay("n", 2, 3), "another project's")
}
