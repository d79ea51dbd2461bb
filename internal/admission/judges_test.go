package admission

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/test/gen"
)

// judged are the policies of a record, and what came of each.
func judged(r Record) (found []string) {
	for _, p := range r.Policies {
		found = append(found, fmt.Sprintf("%s@%d %s", p.Name, p.Version, p.Outcome))
	}
	return found
}

func TestARecordNamesThePoliciesThatWereAskedAndNoOthers(t *testing.T) {
	other := rego("other", User, 4, `{}`)
	other.ServiceType = "db"
	for _, tc := range []struct {
		name     string
		policies []Policy
		want     []string
	}{
		{
			"those after the one that refuses are not asked",
			[]Policy{rego("p", Global, 1, `{"patch": {"b": 1}}`), rego("no", Tenant, 1, `{"reject": true}`), rego("q", User, 1, `{}`), other},
			[]string{"p@4 applied", "no@4 rejected"},
		},
		{
			"one that a patch calls in is named where it was asked",
			[]Policy{rego("p", Global, 1, `{"patch": {"service_type": "db"}}`), other},
			[]string{"p@2 applied", "other@2 applied"},
		},
		{
			"one whose constraint is broken at the end is to blame",
			[]Policy{rego("p", Global, 1, `{"constraints": {"a": {"const": 2}}}`), rego("q", User, 1, `{}`)},
			[]string{"p@2 rejected", "q@2 applied"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want, judged(NewRecord("", decided(t, `{"a":1,"service_type":"vm"}`, tc.policies...))))
		})
	}
	require.Nil(t, NewRecord("", decided(t, `{"a":1}`, other)).Policies)
}

func TestARecordSaysWhichVersionOfAPolicyJudged(t *testing.T) {
	p, err := Compile(t.Context(), rego("p", Global, 1, `{}`))
	require.NoError(t, err)
	q, err := Compile(t.Context(), rego("q", Global, 2, `{}`))
	require.NoError(t, err)
	s := NewSnapshot(0).With(3, p).with(9, filed{q, 7})
	result, err := patient().Evaluate(t.Context(), s, Request{Payload: payload(t, `{}`)}, Options{})
	require.NoError(t, err)
	require.Equal(t, []string{"p@3 applied", "q@7 applied"}, judged(NewRecord("", Decision{Result: result})))
	require.Equal(t, uint64(9), result.SnapshotVersion)
}

func TestARecordNamesABoundedNumberOfPolicies(t *testing.T) {
	gen.Unraced()
	var many []Policy
	for i := range maxRecorded + 3 {
		p := rego(fmt.Sprintf("p%03d", i), Global, i, `{}`)
		many = append(many, p)
		p.ID, p.Name, p.Mode = "shadow-"+p.ID, "shadow-"+p.Name, Shadow
		many = append(many, p)
	}
	r := NewRecord("", decided(t, `{"a":1}`, many...))
	require.Len(t, r.Policies, maxRecorded)
	require.Equal(t, "p000", r.Policies[0].Name)
	require.Equal(t, 3, r.PoliciesLeftOut)
	require.Len(t, r.Shadows, maxRecorded)
	require.Equal(t, 3, r.ShadowsLeftOut)
}
