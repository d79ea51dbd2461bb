package tour

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/streams"
)

// What NATS carries twice, or is about no policy, is not counted.
func TestTheTapCountsRows(t *testing.T) {
	tap := newTap()
	one, two := uuid.New(), uuid.New()
	say := func(subject, seq, body string) {
		tap.take(streams.Message{Subject: subject, Body: []byte(body), Header: map[string][]string{"Edict-Log-Seq": {seq}}})
	}
	const rules = `{"payload":{"rules":[{"action":"allow"}]}}`
	say("edict.node.a."+one.String(), "3", rules)
	say("edict.node.b."+one.String(), "3", rules)
	say("edict.node.a."+two.String(), "4", rules)
	say("edict.node.a."+two.String(), "4", rules)
	say("edict.node.a."+one.String(), "5", `{"payload":{"rules":[]}}`)
	say("edict.node.a.state", "6", `{}`)
	say("edict.node.a.artifact.vertex.x", "6", `{}`)
	say("edict.node.a."+one.String(), "", rules)
	require.Equal(t, 4, tap.messages())
	extra, missing := tap.differences(map[pair]bool{{"b", one}: true, {"c", one}: true})
	require.Equal(t, [2]int{1, 1}, [2]int{extra, missing})
	rows, last := tap.tally(3)
	require.Equal(t, map[pair]bool{{"a", one}: true, {"b", one}: true}, rows)
	require.False(t, last.IsZero())
}

func TestASampleIsThatOfAWholeName(t *testing.T) {
	page := []byte("# HELP a b\na_b 3\na 1.5\na{c=\"d\"} 2\n")
	require.InDelta(t, 1.5, sample(page, "a"), 0)
	require.Zero(t, sample(page, "b"))
}
