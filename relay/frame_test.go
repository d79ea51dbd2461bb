package relay

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/compiler"
	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/streams"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// manyRules is the largest rule list there is.
func manyRules(t *testing.T) compiler.Ruleset {
	t.Helper()
	var rules []policy.Rule
	for i := range policy.MaxRules {
		rules = append(rules, policy.Rule{
			Action: policy.Allow, Protocol: policy.TCP,
			Source:      netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0xaa, 0xbb, 0xcc, 0xdd, byte(i >> 8), byte(i), 1, 1, 1, 1, 1, 1}), 128),
			Destination: netip.MustParsePrefix("2001:db8:1111:2222:3333:4444:5555:6666/128"),
			Ports:       policy.Ports{From: 10000, To: 65535},
		})
	}
	rs := compiler.Compile(rules)
	require.Equal(t, policy.MaxRules, rs.Rules)
	return rs
}

func TestTheLargestPolicyIsDispatchedOnceByAParserOfShortLines(t *testing.T) {
	rs := manyRules(t)
	require.Greater(t, len(rs.Payload), 2*65536)
	s := newSealer(artifact.NewKeyring(testSigner), "1", time.Hour, 8<<20)
	a := announcement{
		key: Key{7, policyIDs[0].String(), "n0"}, policy: policyIDs[0], revision: policyIDs[1],
		fingerprint: rs.Fingerprint, time: timeOf(7),
	}
	rules, err := artifact.PrepareRules(rs.Payload, 0)
	require.NoError(t, err)
	m := sealed(t, s, line{announcement: a, rules: rules})[0]

	e := &events{}
	st := &eventStream{w: e, rc: newController(e), node: "n0", keys: artifact.Keys{Current: testSigner}, metrics: quiet{}, timeout: time.Second}
	cause, err := st.add(&news{Message: streams.Message{
		Seq: 9, Subject: m.Subject, Body: m.Body,
		Header: map[string][]string{streams.HeaderEdictID: {a.id()}},
	}})
	require.NoError(t, err)
	require.NoError(t, st.send())
	require.True(t, cause.Equal(timeOf(7)))
	for line := range strings.Lines(e.text()) {
		require.Less(t, len(line), 65536)
	}
	frames := e.frames(t)
	require.Len(t, frames, 1)
	require.Equal(t, uint64(9), frames[0].id)
	p, err := artifact.ParsePolicyPayload(frames[0].notice.Payload)
	require.NoError(t, err)
	require.NoError(t, p.Verify())
	require.Equal(t, rs.Fingerprint, compiler.Fingerprint(p.Fingerprint))
}

func TestACutNeverFallsInsideAToken(t *testing.T) {
	value := rapid.Custom(func(t *rapid.T) any {
		m := map[string]any{}
		for range rapid.IntRange(0, 8).Draw(t, "members") {
			m[rapid.String().Draw(t, "key")] = rapid.OneOf(
				rapid.Custom(func(t *rapid.T) any { return rapid.String().Draw(t, "text") }),
				rapid.Custom(func(t *rapid.T) any { return []int{rapid.Int().Draw(t, "number"), 1} }),
			).Draw(t, "value")
		}
		return m
	})
	rapid.Check(t, func(t *rapid.T) {
		text, err := json.Marshal(value.Draw(t, "document"))
		require.NoError(t, err)
		room := rapid.IntRange(1, 40).Draw(t, "room")
		var pieces [][]byte
		for rest := text; len(rest) > 0; {
			n := cutJSON(rest, room)
			require.Positive(t, n)
			pieces = append(pieces, rest[:n])
			rest = rest[n:]
		}
		var compact bytes.Buffer
		require.NoError(t, json.Compact(&compact, bytes.Join(pieces, []byte("\n"))))
		require.Equal(t, string(text), compact.String())
	})
}
