package streams

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLastGivesTheLastMessageOfEachSubjectFromASequenceOn(t *testing.T) {
	n := openNodes(t, embedded(t))
	f, err := n.PublishBatch(within(t), batchOf(5, 0)) // f: fence, f+1: n0 … f+4: n3
	require.NoError(t, err)
	_, err = n.PublishBatch(within(t), announcements(2)) // f+5: n0, f+6: n1
	require.NoError(t, err)

	cases := map[string]struct {
		from    uint64
		filters []string
		want    []uint64
	}{
		"everything":                         {0, []string{">"}, []uint64{f, f + 4 - 1, f + 4, f + 5, f + 6}},
		"a node":                             {0, []string{"edict.node.n1.>"}, []uint64{f + 6}},
		"a node and the fence":               {0, []string{"edict.node.n2.>", FenceSubject(0)}, []uint64{f, f + 3}},
		"a node from its message on":         {f + 6, []string{"edict.node.n1.>", FenceSubject(0)}, []uint64{f + 6}},
		"a node that has nothing from there": {f + 4, []string{"edict.node.n2.>", FenceSubject(0)}, nil},
		"nothing from beyond the end":        {f + 100, []string{">"}, nil},
		"a subject without wildcard":         {0, []string{"edict.node.n3.p"}, []uint64{f + 4}},
		"filters that overlap":               {0, []string{"edict.node.n1.>", "edict.node.*.p"}, []uint64{f + 3, f + 4, f + 5, f + 6}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			msgs, upTo, err := n.Last(within(t), c.from, c.filters...)
			require.NoError(t, err)
			assert.Equal(t, f+6, upTo)
			if c.want == nil {
				assert.Empty(t, msgs)
				return
			}
			assert.Equal(t, c.want, sequences(msgs))
		})
	}

	_, _, err = n.Last(within(t), 0, "edict.node.nobody.>")
	assert.ErrorIs(t, err, ErrNotFound, "no message, no upTo")
	_, _, err = n.Last(within(t), 0)
	assert.Error(t, err)
}

func TestAMessageReadByLastAndByFollowIsTheSame(t *testing.T) {
	n := openNodes(t, embedded(t))
	_, err := n.PublishBatch(within(t), append(batchOf(3, 0), Outgoing{Subject: DayMarkSubject(n.Created())}))
	require.NoError(t, err)
	msgs, _, err := n.Last(within(t), 0, ">")
	require.NoError(t, err)
	followed := collect(t, n.Follow(within(t), 0), 4)
	for i := range followed {
		assert.Equal(t, string(followed[i].Body), string(msgs[i].Body))
		followed[i].Body, msgs[i].Body = nil, nil
	}
	assert.Equal(t, followed, msgs)
}

func TestALastOfTooManySubjectsIsRefusedAndReadInstead(t *testing.T) {
	t.Parallel()
	n := openNodes(t, embedded(t))
	first, err := n.PublishBatch(within(t), batchOf(1024, 0))
	require.NoError(t, err)
	msgs, _, err := n.Last(within(t), 0, ">")
	require.NoError(t, err)
	assert.Len(t, msgs, 1024)
	_, err = n.PublishBatch(within(t), []Outgoing{{Subject: "edict.node.more.p"}})
	require.NoError(t, err)
	_, _, err = n.Last(within(t), 0, ">")
	require.ErrorIs(t, err, ErrTooMany)
	var got int
	for batch, err := range n.Read(within(t), 0, first+1024, ">") {
		require.NoError(t, err)
		got += len(batch)
	}
	assert.Equal(t, 1025, got)
}

func TestAnAnswerThatIsCutAtItsBytesIsReadOn(t *testing.T) {
	t.Parallel()
	n := openNodes(t, embedded(t))
	first, err := n.PublishBatch(within(t), batchOf(61, 0))
	require.NoError(t, err)
	for _, bytes := range []int{1, 100, 700, 100_000} {
		n.maxBytes = bytes
		msgs, upTo, err := n.Last(within(t), first+1, ">")
		require.NoError(t, err)
		assert.Equal(t, first+60, upTo)
		require.Len(t, msgs, 60)
		for i := range msgs {
			require.Equal(t, first+1+uint64(i), msgs[i].Seq)
		}
	}
}

func TestPagesOfAnAnswerHoldWhatHoldsAtTheLast(t *testing.T) {
	at := func(seq uint64, subject string) Message { return Message{Seq: seq, Subject: subject} }
	first := []Message{at(1, "a"), at(2, "b"), at(3, "c")}
	later := []Message{at(4, "d"), at(9, "b")}
	assert.Equal(t, []Message{at(1, "a"), at(3, "c"), at(4, "d"), at(9, "b")}, merge(first, later))
	assert.Equal(t, later, merge(nil, later))
}

func TestLastOfAStreamThatNobodyServesIsBusyUntilTheCallerGivesUp(t *testing.T) {
	c := embedded(t)
	n := openNodes(t, c)
	require.NoError(t, c.js.DeleteStream(within(t), NodesStream))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, _, err := n.Last(ctx, 0, ">")
	assert.ErrorIs(t, err, ErrBusy)
}

func TestTheEndOfAnAnswerIsReadByItsStatus(t *testing.T) {
	end := func(status, text string, pending, upTo int) *nats.Msg {
		m := &nats.Msg{Header: nats.Header{statusHeader: {status}, statusText: {text}}}
		if status == statusEnd {
			m.Header[directPending] = []string{fmt.Sprint(pending)}
			m.Header[directUpTo] = []string{fmt.Sprint(upTo)}
		}
		return m
	}
	some := lastPage{msgs: []Message{{Seq: 7}}}
	p, err := some.end(end("204", "EOB", 2, 20))
	require.NoError(t, err)
	assert.True(t, p.more)
	assert.Equal(t, uint64(8), p.next)
	assert.Equal(t, uint64(20), p.upTo)
	for _, c := range []struct {
		m    *nats.Msg
		want error
	}{
		{end("413", "Too Many Results", 0, 0), ErrTooMany},
		{end("404", "No Results", 0, 0), ErrNotFound},
		{end("404", "Message Not Found", 0, 0), ErrBusy},
	} {
		_, err := some.end(c.m)
		assert.ErrorIs(t, err, c.want)
	}
	_, err = some.end(end("500", "disk", 0, 0))
	assert.ErrorContains(t, err, "500 disk")
	_, err = lastPage{}.end(end("204", "EOB", 2, 20))
	assert.Error(t, err, "cut before its first message")
	_, err = some.end(&nats.Msg{Header: nats.Header{statusHeader: {"204"}}})
	assert.Error(t, err)
}
