package admission

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestASnapshotFindsWhatASearchFinds adds, replaces and removes policies and
// compares every lookup with a search through all of them.
func TestASnapshotFindsWhatASearchFinds(t *testing.T) {
	few := func(name string) *rapid.Generator[string] {
		return rapid.SampledFrom([]string{"", name + "1", name + "2"})
	}
	labels := rapid.MapOfN(rapid.SampledFrom([]string{"env", "app", ServiceTypeLabel}), rapid.SampledFrom([]string{"s1", "s2", "x"}), 0, 2)
	asked := rapid.MapOfN(rapid.SampledFrom([]string{"env", "app", ServiceTypeLabel, "", ofTenant, ofUser}), rapid.SampledFrom([]string{"s1", "x", "", "t1", "u1"}), 0, 3)
	rapid.Check(t, func(t *rapid.T) {
		s := NewSnapshot(0)
		all := map[string]*Compiled{}
		var old []*Snapshot
		var sizes []int
		for v := range rapid.IntRange(1, 40).Draw(t, "changes") {
			id := fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "id"))
			old, sizes = append(old, s), append(sizes, len(all))
			if rapid.IntRange(0, 3).Draw(t, "remove") == 0 {
				delete(all, id)
				s = s.Without(uint64(v), id)
				continue
			}
			c := &Compiled{policy: Policy{
				ID: id, Level: rapid.SampledFrom(Levels()).Draw(t, "level"), Priority: rapid.IntRange(0, 3).Draw(t, "priority"),
				Enabled: rapid.IntRange(0, 4).Draw(t, "enabled") > 0, ServiceType: few("s").Draw(t, "service"),
				TenantID: few("t").Draw(t, "tenant"), UserID: few("u").Draw(t, "user"), LabelSelector: labels.Draw(t, "selector"),
			}}
			all[id] = c
			s = s.With(uint64(v), c)
		}
		r := &Request{ServiceType: few("s").Draw(t, "asked service"), TenantID: few("t").Draw(t, "asked tenant"), UserID: few("u").Draw(t, "asked user"), Labels: asked.Draw(t, "labels")}
		var want []*Compiled
		for _, c := range all {
			if c.policy.mismatch(r) == "" {
				want = append(want, c)
			}
		}
		slices.SortFunc(want, inChain)
		require.Equal(t, want, s.match(r))
		require.Len(t, s.All(), len(all))
		for i := range old {
			require.Len(t, old[i].All(), sizes[i], "an older snapshot stays as it was")
		}
	})
}

func TestAPolicySaysWhyItDoesNotApply(t *testing.T) {
	r := &Request{ServiceType: "vm", TenantID: "t1", UserID: "u1", Labels: map[string]string{"env": "dev", ServiceTypeLabel: "zz"}}
	for _, c := range []struct {
		policy Policy
		want   string
	}{
		{Policy{Enabled: true}, ""},
		{Policy{}, "the policy is disabled"},
		{Policy{Enabled: true, ServiceType: "db"}, `the service type is "vm", not "db"`},
		{Policy{Enabled: true, TenantID: "t2"}, `the policy is of tenant "t2"`},
		{Policy{Enabled: true, UserID: "u2"}, `the policy is of user "u2"`},
		{Policy{Enabled: true, LabelSelector: map[string]string{"env": "prod"}}, `the label env is not "prod"`},
		{Policy{Enabled: true, LabelSelector: map[string]string{"none": ""}}, `the label none is not ""`},
		{Policy{Enabled: true, LabelSelector: map[string]string{ServiceTypeLabel: "zz"}}, `the label service_type is not "zz"`},
		{Policy{Enabled: true, LabelSelector: map[string]string{ServiceTypeLabel: "vm", "env": "dev"}}, ""},
	} {
		require.Equal(t, c.want, c.policy.mismatch(r))
		require.Equal(t, c.want == "", c.policy.matches(r))
	}
}
