package relay

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/compiler"
	"github.com/edictdev/edict/policy"
	"github.com/edictdev/edict/projector"
)

// oneRuleset is an outbox of a single payload.
type oneRuleset struct {
	Outbox
	rs compiler.Ruleset
}

func (o oneRuleset) Payload(compiler.Fingerprint) ([]byte, error) { return o.rs.Payload, nil }

// A row that the node contract cannot say whole is announced as what it can say,
// with a count, signed; and a sync knows the message for the row's again. A row
// of which nothing can be said is no withdrawal.
func TestRulesThatCannotBeSaidAreCounted(t *testing.T) {
	allow := policy.Rule{Action: policy.Allow, Protocol: policy.Any, SourceSelector: "a", DestinationSelector: "b"}
	deny := allow
	deny.Action = policy.Deny
	trust := artifact.NewTrustSet()
	require.NoError(t, trust.Add(artifact.PlanePolicy, testSigner.KeyID(), testSigner.PublicKey(), time.Time{}))
	for name, rs := range map[string]compiler.Ruleset{
		"some": compiler.Compile(append([]policy.Rule{allow, deny}, policy.Rule{
			Action: policy.Log, Protocol: policy.Any, Source: netip.MustParsePrefix("::/0"), Destination: netip.MustParsePrefix("::/0"),
		})),
		"none": compiler.Compile([]policy.Rule{allow, deny}),
	} {
		t.Run(name, func(t *testing.T) {
			s := newSealer(artifact.NewKeyring(testSigner), "17", day, 8<<20)
			box := oneRuleset{rs: rs}
			a := announcement{key: Key{42, policyIDs[0].String(), "web-1"}, policy: policyIDs[0], revision: policyIDs[2], time: timeOf(42), fingerprint: rs.Fingerprint}
			r, err := s.prepared(a, box)
			require.NoError(t, err)
			for _, m := range sealed(t, s, line{announcement: a, rules: r}, line{announcement: a, rules: r}) {
				e, err := trust.Open(m.Body)
				require.NoError(t, err)
				p, err := artifact.ParsePolicyPayload(e.Payload)
				require.NoError(t, err)
				require.NoError(t, p.Verify())
				require.Equal(t, 2, p.RulesOmitted)
				require.Equal(t, name == "none", string(p.Rules) == "[]")

				d := newDifference(projector.SyncRows{}, box, nil, 64, testSigner.KeyID())
				want, ok := d.speak(rs.Fingerprint)
				require.True(t, ok)
				says, known := spokenIn(m.Body)
				require.True(t, known)
				require.Equal(t, want, says)
				require.NotEqual(t, spoken{compiler.Empty.Fingerprint, 0}, says, "not taken for a tombstone")
			}
			told, err := readTold(sealed(t, s, line{announcement: a, rules: r})[0].Body)
			require.NoError(t, err)
			require.Contains(t, string(told.payload), `"rules_omitted":2`)
		})
	}
}
