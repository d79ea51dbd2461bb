package plane

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// largest are the largest events of nodes and of plain policies that the fold
// accepts, in the words that the API itself would choose.
func largest(t *testing.T) map[string]policy.Event {
	project := uuid.MustParse(ours)
	n := policy.NodeUpdated{ID: uuid.New(), Project: project, Node: policy.NodeID(strings.Repeat("n", policy.MaxNodeID))}
	named := map[string]string{}
	for i := range policy.MaxLabels {
		labels := strings.Split(strings.Repeat("p", policy.MaxLabelPrefix-3), "")
		for j := 60; j < len(labels); j += 61 {
			labels[j] = "."
		}
		key := fmt.Sprintf("%s%03d/%s", strings.Join(labels, ""), i, strings.Repeat("k", policy.MaxLabelName))
		named[key] = strings.Repeat("v", policy.MaxLabelValue)
	}
	var err error
	n.Labels, err = policy.NewLabels(named, "")
	require.NoError(t, err)
	for i := range policy.MaxAddresses {
		n.Addresses = append(n.Addresses, netip.MustParseAddr(fmt.Sprintf("fdff:ffff:ffff:ffff:ffff:ffff:ffff:ff%02x", i)))
	}
	var rules []string
	for i := range policy.MaxRules {
		side := fmt.Sprintf("fdff:ffff:ffff:ffff:ffff:ffff:ffff:%04x/128", 0x1000+i)
		rules = append(rules, fmt.Sprintf(`{"action":"redirect","protocol":"sctp","source_cidr":%q,"destination_cidr":%q,"ports":{"from":65534,"to":65535},"proxy_port":65535,"listener_priority":126,"auth":"required"}`, side, side))
	}
	draft, err := policy.DecodeDraft(fmt.Appendf(nil, `{"slug":%q,"display_name":%q,"tier":"baseline","priority":16777215,"selector":{"source":"a","destination":"b"},"rules":[%s]}`,
		strings.Repeat("s", policy.MaxSlug), strings.Repeat("n", policy.MaxDisplayName), strings.Join(rules, ",")))
	require.NoError(t, err)
	r := policy.RevisionCreated{ID: uuid.New(), Project: project, Policy: uuid.New(), Slug: draft.Slug, DisplayName: draft.DisplayName}
	r.Revision = policy.Revision{ID: uuid.New(), Selector: draft.Selector, Order: draft.Order, Rules: draft.Rules, CreatedAt: time.Now().UTC(), CreatedBy: strings.Repeat("b", policy.MaxCreatedBy)}
	return map[string]policy.Event{"node": n, "policy": r}
}

// A producer may append the largest event of each family, on an embedded server
// and on one of another, and nothing that is much larger.
func TestTheLargestEventsPassAndNoLargerMessages(t *testing.T) {
	for name, external := range map[string]bool{"embedded server": false, "server of another": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := startGuarded(t, external)
			nc, err := who{g, "author"}.nats()
			require.NoError(t, err)
			require.Eventually(t, func() bool { return nc.MaxPayload() == streams.MaxProduced }, 10*time.Second, time.Millisecond, "the client is told")
			for family, e := range largest(t) {
				body := policy.Append(nil, e)
				t.Logf("the largest %s: %d bytes", family, len(body))
				require.Less(t, len(body), streams.MaxProduced/2, "%s: there is a margin", family)
				answer, err := nc.Request(wire.Subject(e), body, 10*time.Second)
				require.NoError(t, err)
				var ack struct{ Seq uint64 }
				require.NoError(t, json.Unmarshal(answer.Data, &ack), "%s", answer.Data)
				require.NotZero(t, ack.Seq, "%s", answer.Data)
			}
			text, err := who{g, "author"}.body("PUT", "/v1/projects/"+ours+"/nodes/last", `{"labels":{}}`)
			require.NoError(t, err, "%s", text)
			status, err := who{g, "root"}.body("GET", "/v1/status", "")
			require.NoError(t, err)
			var s struct{ Rejected, Nodes, Policies int }
			require.NoError(t, json.Unmarshal(status, &s))
			require.Equal(t, []int{0, 2, 1}, []int{s.Rejected, s.Nodes, s.Policies}, "%s", status)

			require.ErrorIs(t, nc.Publish("edict.log."+ours+".node.junk", make([]byte, streams.MaxProduced+1)), nats.ErrMaxPayload)
			root, err := who{g, "root"}.nats()
			require.NoError(t, err)
			require.EqualValues(t, 8<<20, root.MaxPayload(), "who administers is not held to it")
		})
	}
}
