package main

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"time"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/internal/compiler/firstmatch"
	"github.com/edictdev/edict/policy"
)

// residents are the nodes of ordered rules: one of each identity, with an address.
type residents struct{ *orderedRules }

func (n residents) address(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
}

func (n residents) Members(p datapath.Peer) (out []netip.Addr) {
	for i := range n.ids {
		if p.Holds(&n.ids[i]) {
			out = append(out, n.address(i))
		}
	}
	return out
}

func (residents) Elsewhere(netip.Prefix) []netip.Addr { return nil }

// blocks measures internal/compiler/firstmatch: what agents of the node contract get in
// place of a table, beside making that table.
func blocks(_ context.Context, e *env) ([]line, error) {
	var lines []line
	for _, c := range []struct{ rules, identities int }{{100, 1_000}, {1_000, 1_000}} {
		w := newOrderedRules(c.rules, c.identities, false)
		var shared, each, mb, built samples
		var rules, omitted, size int
		self := policy.Addresses{netip.MustParseAddr("192.0.2.1")}
		for range 5 * e.rounds() {
			began := time.Now()
			t, err := datapath.Build(w.table, w.ids, datapathOptions)
			if err != nil {
				return lines, err
			}
			built = append(built, milliseconds(time.Since(began)))
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			began = time.Now()
			list := firstmatch.Of(t, residents{w})
			shared = append(shared, milliseconds(time.Since(began)))
			runtime.ReadMemStats(&after)
			mb = append(mb, float64(after.TotalAlloc-before.TotalAlloc)/1e6)
			began = time.Now()
			got, left := list.Rules(self)
			size = len(compiler.AppendRules(nil, got))
			each = append(each, milliseconds(time.Since(began)))
			if rules, omitted = len(got), left; rules == 0 || rules > firstmatch.MaxRules {
				return lines, fmt.Errorf("%s: a block of %d rules", w.what, rules)
			}
		}
		what := w.what + ": the block, once for all nodes of the table"
		lines = append(lines,
			*figure(what, "ms", shared).beside("the table", built).note("%s rules, %s left out", grouped(int64(rules)), grouped(int64(omitted))),
			*figure(what+": allocated", "MB", mb),
			*figure(w.what+": written for one node", "ms", each).beside("the table", built).note("%s bytes", grouped(int64(size))))
	}
	return lines, nil
}
