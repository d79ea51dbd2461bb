package projector

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// heavy is a log of n node events, valid but for what before puts in front, each
// of about so many bytes.
func heavy(t *testing.T, n, size int, before string) (msgs []streams.Message) {
	t.Helper()
	j := &journal{}
	for i := range n {
		e := update(t, i+1, 1, fmt.Sprintf("n%d", i), "k", "v")
		msgs = append(msgs, j.raw(wire.Subject(e), []byte(before+strings.Repeat(" ", size)+string(policy.Append(nil, e)))))
	}
	return msgs
}

// What waits for the link above it is as heavy as what is let through with it.
func TestWhatWaitsForALinkIsBoundedInBytes(t *testing.T) {
	gen.Unraced()
	const size = 1 << 20
	far := streams.Link{Log: fmt.Sprint(born.UnixNano()), Seq: 1 << 40}
	p := open(t, []streams.Link{far})
	msgs := heavy(t, heldBytes/size+4, size, "")
	a, passed, most := p.newVerifier(), 0, 0
	for i := range msgs {
		entries, err := a.take(msgs[i : i+1])
		require.NoError(t, err)
		passed += len(entries)
		most = max(most, weigh(a.held))
		require.Equal(t, weigh(a.held), a.weight)
	}
	require.LessOrEqual(t, most, heldBytes)
	require.Positive(t, passed)
	require.NoError(t, p.Close())
}

// Nothing is left of the body of what is no event, or is none of a revision.
func TestWhatIsNoEventWeighsNothing(t *testing.T) {
	const size = 1 << 16
	entries, err := prepareFrom(heavy(t, 4, size, "x"), 1, nil)
	require.NoError(t, err)
	require.Equal(t, 4*lightest, weigh(entries))
	good, err := prepareFrom(heavy(t, 4, size, ""), 1, nil)
	require.NoError(t, err)
	require.Greater(t, weigh(good), 4*size)
	for _, e := range append(entries, good...) {
		require.Empty(t, e.msg.Body)
		require.Empty(t, e.msg.Header)
	}
}

// What an event is refused for is kept for good, by every worker: refusing must
// not make it larger.
func TestARejectionIsShort(t *testing.T) {
	gen.Unraced()
	e := update(t, 1, 1, "a", "k", "v")
	var labels strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&labels, `"-%d":"",`, i)
	}
	long := strings.Repeat("k", 1<<20)
	body := strings.Replace(string(policy.Append(nil, e)), `"labels":{`, `"labels":{`+labels.String()+`"-`+long+`":"",`, 1)
	p, j := openFresh(t), &journal{}
	require.Equal(t, policy.Invalid, verdict(t, p, j.raw(wire.Subject(e), []byte(body))))
	require.Equal(t, policy.Undecodable, verdict(t, p, j.raw(wire.Subject(e), []byte(`{"`+long+`":1}`))))
	rs, err := p.Rejections(0, 2)
	require.NoError(t, err)
	for i := range rs {
		require.Less(t, len(encodeRejection(&rs[i])), 32<<10)
		require.LessOrEqual(t, len(rs[i].Violations), maxFaults)
	}
	require.Contains(t, rs[0].Detail, "more faults")
}

// The text of a revision is kept, and the white space around it is not.
func TestARevisionIsKeptWithoutItsWhiteSpace(t *testing.T) {
	e := revise(t, 1, 1, 1, 1, 0, "web", "role=web", 80)
	text := policy.Append(nil, e)
	j := &journal{}
	wide := j.raw(wire.Subject(e), append(append([]byte{}, text...), strings.Repeat(" \n", spacious)...))
	entries, err := prepareFrom([]streams.Message{wide}, 1, nil)
	require.NoError(t, err)
	require.Nil(t, entries[0].fault)
	require.Equal(t, string(text), string(entries[0].msg.Body))
	require.Equal(t, lightest+len(text), entries[0].weight)
}

// A reader may be given again what it had, between two events that are new.
func TestWhatIsOursIsSaidOfItsOwnEvent(t *testing.T) {
	p := open(t, nil)
	defer p.Close()
	msgs := heavy(t, 3, 0, "")
	v := p.newVerifier()
	v.ours = func(m *streams.Message) bool { return m.Seq == 3 }
	entries, err := v.take([]streams.Message{msgs[0], msgs[1], msgs[0], msgs[1], msgs[2]})
	require.NoError(t, err)
	require.Len(t, entries, 3)
	for _, e := range entries {
		require.Equal(t, e.msg.Seq == 3, e.ours, e.msg.Seq)
	}
}
