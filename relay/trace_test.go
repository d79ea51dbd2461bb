package relay

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/projector"
	"github.com/edictdev/edict/streams"
	"github.com/stretchr/testify/require"
)

func TestAnAnnouncementCarriesItsEventsTraceInAHeaderAlone(t *testing.T) {
	trace, ok := streams.ParseTrace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	require.True(t, ok)
	s := newSealer(artifact.NewKeyring(testSigner), "17", 30*day, 8<<20)
	rules, err := artifact.PrepareRules(rulesets[1].Payload, 0)
	require.NoError(t, err)
	message := func(trace streams.Trace) streams.Outgoing {
		e := projector.StoredEdge{Seq: 3, Policy: policyIDs[0], Fingerprint: rulesets[1].Fingerprint, Have: []policy.NodeID{"a"}, Trace: trace}
		for a := range expand(e) {
			return sealed(t, s, line{announcement: a, rules: rules})[0]
		}
		return streams.Outgoing{}
	}
	with, without := message(trace), message(streams.Trace{})
	require.Equal(t, slices.Concat(without.Header, []string{"traceparent", trace.String()}), with.Header)
	require.Equal(t, content(t, without), content(t, with), "a trace is none of the node's business")
}

// content is a body without the signature, which differs from sealing to
// sealing.
func content(t *testing.T, m streams.Outgoing) map[string]any {
	var body map[string]any
	require.NoError(t, json.Unmarshal(m.Body, &body))
	delete(body, "signature")
	return body
}

func TestABatchIsReportedWithEachOfItsTracesOnce(t *testing.T) {
	told := func(traces ...byte) (all []Traced) {
		var x part
		for i, n := range traces {
			x.lines = append(x.lines, line{announcement: announcement{key: Key{Node: policy.NodeID(fmt.Sprint(i))}, trace: streams.Trace{n}}})
		}
		b := batch{parts: []part{x, x}}
		b.report(func(t Traced) { all = append(all, t) }, time.Time{})
		return all
	}
	require.Empty(t, told())
	require.Empty(t, told(0, 0))
	require.Equal(t, []Traced{{Traces: []streams.Trace{{7}, {8}}, Announcements: 8}}, told(7, 7, 0, 8))
	many := make([]byte, 0, 255)
	for n := range 255 {
		many = append(many, byte(n+1))
	}
	require.Len(t, told(many...)[0].Traces, tracesMost)
}
