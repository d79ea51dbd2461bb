package lint

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/internal/test/oracle/firstmatch"
	"github.com/edictdev/edict/policy"
)

// drawPolicy is one of few rules, most of which redirect, of the only priority.
func drawPolicy(t *rapid.T) policy.Content {
	c := draw(t)
	c.Rules, c.Order.Priority.N = c.Rules[:3], policy.DefaultPriority
	for i := range c.Rules {
		r := &c.Rules[i]
		if rapid.IntRange(0, 3).Draw(t, "redirects") > 0 {
			r.Action, r.ListenerPriority = policy.Redirect, uint8(rapid.IntRange(0, 1).Draw(t, "listener priority"))
		}
		if r.Action == policy.Redirect {
			r.ProxyPort = uint16(rapid.IntRange(1, 2).Draw(t, "proxy port"))
		}
		if rapid.Bool().Draw(t, "to all of a") {
			r.Destination, r.DestinationSelector = netip.Prefix{}, "a"
		}
	}
	return c
}

// What becomes of a flow may hang on which of two policies has the lower id, which
// no author knows. Where it does, there is a warning.
func TestIDsDecideNothingUnwarned(t *testing.T) {
	// A host of several addresses is in CIDRs that do not overlap, which lint takes to
	// have nobody in common.
	single := slices.DeleteFunc(slices.Clone(hosts), func(h host) bool { return len(h.addrs) > 1 })
	hung := 0
	check := func(rt *rapid.T) {
		a, b := drawPolicy(rt), drawPolicy(rt)
		one := map[string]string{}
		eachFlow(single, map[string]policy.Content{"1": a, "2": b}, func(flow string, x firstmatch.Answer) { one[flow] = outcome(x) })
		hangs := false
		eachFlow(single, map[string]policy.Content{"2": a, "1": b}, func(flow string, x firstmatch.Answer) { hangs = hangs || one[flow] != outcome(x) })
		if !hangs {
			return
		}
		hung++
		require.True(rt, slices.ContainsFunc(besideAll(t, NewPolicy("", a), NewPolicy("b", b)), func(w Warning) bool { return w.Code == CodeRedirectsDiffer }), "%+v\n%+v", a, b)
	}
	// One pair in six hangs: now and then few cases have none.
	for tries := 0; hung == 0 && tries < 10; tries++ {
		rapid.Check(t, check)
	}
	require.Positive(t, hung)
	t.Logf("of %d pairs the ids decide", hung)
}

func outcome(a firstmatch.Answer) string {
	if a.Rule == nil {
		return a.Action
	}
	return fmt.Sprint(a.Action, a.Rule.ProxyPort, a.Auth)
}
