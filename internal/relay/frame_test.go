package relay

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/policy"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// manyRules is the largest rule list there is.
func manyRules() (rules []policy.Rule) {
	for i := range policy.MaxRules {
		rules = append(rules, policy.Rule{
			Action: policy.Allow, Protocol: policy.TCP,
			Source:      netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb8, 0xaa, 0xbb, 0xcc, 0xdd, byte(i >> 8), byte(i), 1, 1, 1, 1, 1, 1}), 128),
			Destination: netip.MustParsePrefix("2001:db8:1111:2222:3333:4444:5555:6666/128"),
			Ports:       policy.Ports{From: 10000, To: 65535},
		})
	}
	return rules
}

func TestTheLargestPolicyIsDispatchedOnceByAParserOfShortLines(t *testing.T) {
	rules := manyRules()
	rs := compiler.Compile(rules)
	require.Greater(t, len(rs.Payload), 2*65536)
	log := newScript(t)
	log.node("n0", "role=web")
	g := newStage(t, log, Options{})
	g.play()
	for i, accept := range []string{"", "text/event-stream;dialect=batch"} {
		r := g.open("n0", "", accept)
		log.reviseRules(i, "role=web", rules)
		log.revise(i+10, "role=web", 1)
		g.play()
		f := r.next()
		require.Greater(t, f.Lines, 2)
		for line := range strings.Lines(string(f.Data)) {
			require.Less(t, len("data: ")+len(line), 65536)
		}
		require.Equal(t, rs.Fingerprint.String(), f.Payload.Fingerprint)
		require.Equal(t, log.idOf(i+10), r.next().ID, "it came once")
	}
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
