package datapath_test

import (
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/policy"
)

func build(t *testing.T, rules []datapath.Rule, ids string) *datapath.Table {
	table, err := datapath.Build(rules, numbered(ids), datapath.Options{})
	require.NoError(t, err)
	return table
}

func TestADirectionWithoutRulesAllowsEverything(t *testing.T) {
	table := build(t, vector{rules: "r0 g t/80 A"}.parse(t), "5")
	id, _ := table.ID("5")
	e, found := table.Lookup(datapath.Ingress, id, datapath.UDP, 53)
	require.True(t, found)
	require.Equal(t, datapath.Allow, e.Verdict)
	require.True(t, e.Default())
	require.Equal(t, datapath.Allow, table.DefaultVerdict(datapath.Ingress))
	_, found = table.Lookup(datapath.Egress, id, datapath.UDP, 53)
	require.False(t, found, "and one with a rule denies the rest")
	require.Equal(t, datapath.Deny, table.DefaultVerdict(datapath.Egress))
}

func TestOnlyADecidingRuleMakesADirectionDeny(t *testing.T) {
	for rules, want := range map[string]datapath.Verdict{
		"r0 g t/80 P": datapath.Allow,
		"r0 g t/80 L": datapath.Allow,
		"r0 g t/80 D": datapath.Deny,
		"r0 g t/80 R": datapath.Deny,
	} {
		parsed := vector{rules: rules}.parse(t)
		if strings.HasSuffix(rules, "L") {
			parsed[0].Verdict = datapath.Log
		}
		require.Equal(t, want, build(t, parsed, "").DefaultVerdict(datapath.Egress), rules)
	}
}

func TestAmongRedirectsOfOneLevelTheLowerListenerPriorityGoesFirst(t *testing.T) {
	rules := vector{rules: "r0 g t/80 R; r0 g t/80 R; r0 g t/80 R; r0 g t/80 A"}.parse(t)
	rules[0].ListenerPriority, rules[1].ListenerPriority = 126, 1
	table := build(t, rules, "5")
	id, _ := table.ID("5")
	for _, want := range []int{1, 0, 2, 3} {
		table = build(t, rules, "5")
		e, _ := table.Lookup(datapath.Egress, id, datapath.TCP, 80)
		require.Equal(t, want, e.Rule.Index)
		rules[want].Verdict, rules[want].ProxyPort, rules[want].ListenerPriority = datapath.Log, 0, 0
	}
}

func TestAPolicyMaySayThatItDeniesNothingByDefault(t *testing.T) {
	rules := vector{rules: "r0 g t/80 D; r1 g u/53 A"}.parse(t)
	rules[0].NoDefaultDeny, rules[1].NoDefaultDeny = true, true
	vector{want: "5 t/80=D 5 t/81=A 6 t/80=A k5=2"}.check(t, build(t, rules, "5 6"))
	rules[1].NoDefaultDeny = false
	vector{want: "5 t/80=D 5 t/81=N 5 u/53=A"}.check(t, build(t, rules, "5 6"))
}

func TestAnAddressIsTheLongestBlockThatHoldsIt(t *testing.T) {
	rule := func(i int, cidr string, v datapath.Verdict) datapath.Rule {
		return datapath.Rule{
			Ref: datapath.Ref{Policy: "p", Index: i}, Direction: datapath.Egress, Tier: datapath.Normal, Ordered: true,
			Peer: datapath.Peer{CIDR: netip.MustParsePrefix(cidr)}, Verdict: v,
		}
	}
	table := build(t, []datapath.Rule{
		rule(0, "10.1.1.0/24", datapath.Deny),
		rule(1, "10.0.0.0/8", datapath.Allow),
		rule(2, "10.1.0.0/16", datapath.Deny),
		rule(3, "fd00::/8", datapath.Allow),
	}, "")
	for addr, want := range map[string]string{
		"10.1.1.9": "10.1.1.0/24 D", "10.1.9.9": "10.1.0.0/16 A", "10.9.9.9": "10.0.0.0/8 A", "::ffff:10.1.1.9": "10.1.1.0/24 D",
		"fd00::1": "fd00::/8 A", "192.0.2.1": "any N", "2001:db8::1": "any N",
	} {
		id := table.Resolve(netip.MustParseAddr(addr))
		name := "any"
		if i := table.Identity(id); i != nil {
			name = i.Name
		}
		e, found := table.Lookup(datapath.Egress, id, datapath.TCP, 80)
		require.Equal(t, want, name+" "+said(e, found), addr)
	}
	require.Equal(t, datapath.AnyIdentity, table.Resolve(netip.Addr{}))
}

func TestTheBytesOfATableAreWhatTheyWere(t *testing.T) {
	rules := vector{rules: "admin r0 g t/80 P; admin r1 * any D; r2 h t/80-81 R"}.parse(t)
	rules[2].ListenerPriority, rules[2].Auth = 101, datapath.AuthRequired
	table := build(t, rules, "6 5")
	require.Equal(t, `{"identities":["5","6"],"entries":[`+
		`{"direction":"egress","identity":0,"protocol":"any","port":0,"prefix":0,"verdict":"deny","precedence":4294967039,"rule":{"policy":"p","revision":"","index":1}},`+
		`{"direction":"egress","identity":1,"protocol":"tcp","port":80,"prefix":16,"verdict":"redirect","precedence":4294967040,"proxy_port":15001,"auth":"required","rule":{"policy":"p","revision":"","index":2}},`+
		`{"direction":"ingress","identity":0,"protocol":"any","port":0,"prefix":0,"verdict":"allow","precedence":0,"rule":null}`+
		`]}`, string(table.AppendJSON(nil)))
	require.Equal(t, "Q0ECmvVmzLuhU9vz0k0pi7Lj4qufomPAbD8I6qgrujA=", table.Fingerprint().String())
}

func TestALookUpAllocatesNothing(t *testing.T) {
	table := build(t, vector{rules: "r0 g t/80-90 A!; r1 * t/85 D; r2 h any R"}.parse(t), "5 6")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		for id := range datapath.ID(5) {
			table.Lookup(datapath.Egress, id, datapath.TCP, 85)
			table.Lookup(datapath.Ingress, id, datapath.UDP, 85)
			table.Lookup(0, id, datapath.UDP, 85)
		}
	}))
}

func TestATableThatIsTooLargeIsRefusedAndTheLastOneStays(t *testing.T) {
	s := datapath.NewState(datapath.Options{Capacity: 12})
	_, err := s.Apply(datapath.Batch{AddRules: vector{rules: "r0 g t/1-1023 A"}.parse(t), AddIdentities: numbered("5 6")})
	require.NoError(t, err)
	before := s.Table()
	require.Equal(t, 11, before.Len())
	same := numbered("5")[0]
	same.Name = "55"
	_, err = s.Apply(datapath.Batch{AddIdentities: []datapath.Identity{same}})
	require.Equal(t, &datapath.CapacityError{Entries: 21, Capacity: 12, Egress: 20, Ingress: 1}, err)
	require.ErrorContains(t, err, "21 entries (20 egress, 1 ingress), and the table holds 12")
	require.Same(t, before, s.Table())
}

func TestRulesThatWereRefusedLeaveNothingBehind(t *testing.T) {
	s := datapath.NewState(datapath.Options{Capacity: 22})
	rules := vector{rules: "r1 g t/1-1023 A"}.parse(t)
	_, err := s.Apply(datapath.Batch{AddRules: rules, AddIdentities: numbered("5 6")})
	require.NoError(t, err)
	_, err = s.Apply(datapath.Batch{AddRules: vector{rules: "r0 h u/1-1023 D"}.parse(t)})
	require.ErrorAs(t, err, new(*datapath.CapacityError))
	come := numbered("5 6")
	come[0].Name, come[1].Name = "55", "66"
	_, err = s.Apply(datapath.Batch{AddIdentities: come})
	require.NoError(t, err)
	fresh, err := datapath.Build(rules, append(come, numbered("5 6")...), datapath.Options{})
	require.NoError(t, err)
	require.Equal(t, string(fresh.AppendJSON(nil)), string(s.Table().AppendJSON(nil)))
}

func TestASelectorNeverHoldsForAddressesOutside(t *testing.T) {
	absent := []policy.Expr{{{Op: policy.Absent, Key: "g"}}}
	block := netip.MustParsePrefix("10.0.0.0/8")
	rules := vector{rules: "r0 g any D; r1 g any D; r2 g t/80 A; r3 * any D"}.parse(t)
	rules[0].Peer.Selectors = absent
	rules[1].Peer = datapath.Peer{Selectors: absent, CIDR: block}
	rules[2].Peer = datapath.Peer{CIDR: block}
	table := build(t, rules, "6")
	vector{want: "10.0.0.0/8 t/80=A 10.0.0.0/8 t/81=D 6 t/80=D"}.check(t, table)
	id, _ := table.ID("6")
	e, _ := table.Lookup(datapath.Egress, id, datapath.TCP, 80)
	require.Equal(t, 0, e.Rule.Index)
}

func TestATableFarTooLargeIsGivenUpOn(t *testing.T) {
	rules := vector{rules: "r0 h t/1-1023 A; r1 h u/1-1023 A"}.parse(t)
	rules[1].Direction = datapath.Ingress
	var ids []datapath.Identity
	for i := range 6 { // each of a class of its own
		id := datapath.Identity{Name: string(rune('a' + i)), Labels: policy.Labels{{Key: "h"}, {Key: string(rune('p' + i))}}}
		r := vector{rules: "r9 " + id.Labels[1].Key + " t/1 A"}.parse(t)[0]
		r.Ref.Index = 10 + i
		rules, ids = append(rules, r), append(ids, id)
	}
	_, err := datapath.Build(rules, ids, datapath.Options{Capacity: 5})
	require.Equal(t, &datapath.CapacityError{Entries: 40, Capacity: 5, Egress: 20, Ingress: 20, More: true}, err)
	require.ErrorContains(t, err, "more than 40 entries (20 egress, 20 ingress), and the table holds 5")
}

func TestEveryFaultOfABatchIsReportedAndNothingIsDone(t *testing.T) {
	s := datapath.NewState(datapath.Options{})
	_, err := s.Apply(datapath.Batch{AddIdentities: numbered("5")})
	require.NoError(t, err)
	before := s.Table()
	good := vector{rules: "r0 g t/80 A"}.parse(t)[0]
	broken := func(change func(*datapath.Rule)) datapath.Rule {
		r := good
		change(&r)
		return r
	}
	_, err = s.Apply(datapath.Batch{
		RemoveIdentities: []string{"7"},
		AddIdentities:    []datapath.Identity{{Name: ""}, {Name: "5"}, {Name: "6"}, {Name: "6"}, {Name: "10.0.0.0/8"}, {Name: "8", Block: true}},
		RemoveRules:      []datapath.RuleName{{Ref: good.Ref, Direction: datapath.Egress}},
		AddRules: []datapath.Rule{
			good,
			broken(func(r *datapath.Rule) { r.Direction = 0 }),
			broken(func(r *datapath.Rule) { r.Tier = 4 }),
			broken(func(r *datapath.Rule) { r.Priority = 1 << 24 }),
			broken(func(r *datapath.Rule) { r.Ref.Policy = "" }),
			broken(func(r *datapath.Rule) { r.Ref.Index = -1 }),
			broken(func(r *datapath.Rule) { r.Peer.Any = true }),
			broken(func(r *datapath.Rule) { r.Peer = datapath.Peer{} }),
			broken(func(r *datapath.Rule) { r.Peer.CIDR = netip.MustParsePrefix("10.1.0.0/8") }),
			broken(func(r *datapath.Rule) { r.Protocol = 47 }),
			broken(func(r *datapath.Rule) { r.Protocol = datapath.ICMP }),
			broken(func(r *datapath.Rule) { r.Ports = policy.Ports{From: 9, To: 8} }),
			broken(func(r *datapath.Rule) { r.Ports = policy.Ports{To: 8} }),
			broken(func(r *datapath.Rule) { r.Verdict = 0 }),
			broken(func(r *datapath.Rule) { r.Verdict = datapath.Redirect }),
			broken(func(r *datapath.Rule) { r.ProxyPort = 1 }),
			broken(func(r *datapath.Rule) { r.ListenerPriority = 127 }),
			broken(func(r *datapath.Rule) { r.ListenerPriority = 1 }),
			broken(func(r *datapath.Rule) { r.Auth = 3 }),
		},
	})
	require.Equal(t, strings.TrimSpace(`
policy p, rule 0 (egress): remove: no such rule is there
policy p, rule 0 (Direction(0)): direction: set Egress or Ingress
policy p, rule 0 (egress): tier: is Tier(4); set Admin, Normal or Baseline
policy p, rule 0 (egress): priority: 16777216 is above 16777215
policy , rule 0 (egress): policy: is empty; an entry names it
policy p, rule -1 (egress): index: -1 is below 0
policy p, rule 0 (egress): peer: is any and also g; set one of them
policy p, rule 0 (egress): peer: is nobody; set a selector, a CIDR, or any
policy p, rule 0 (egress): peer: 10.1.0.0/8 has host bits set; use 10.0.0.0/8
policy p, rule 0 (egress): protocol: 47 is none a rule can name; use tcp, udp, sctp, icmp or any
policy p, rule 0 (egress): ports: icmp has no ports; remove them
policy p, rule 0 (egress): ports: from 9 is above to 8
policy p, rule 0 (egress): ports: port 0 cannot be named; begin at 1
policy p, rule 0 (egress): action: is Verdict(0); set Deny, Redirect, Allow, Pass or Log
policy p, rule 0 (egress): proxy_port: a redirect needs one
policy p, rule 0 (egress): proxy_port: only a redirect has one
policy p, rule 0 (egress): listener_priority: 127 is above 126
policy p, rule 0 (egress): listener_priority: only a redirect has one
policy p, rule 0 (egress): auth: is Auth(3); set AuthUnset, AuthRequired or AuthDisabled
identity "7": remove: no such identity is there; blocks go with their rules
identity "": name: is empty
identity "10.0.0.0/8": name: is a CIDR: blocks are named so, and follow from the rules
identity "5": name: is there already; remove it in the same batch to replace it
identity "6": name: is added twice
identity "8": block: blocks follow from the rules; do not add them`), err.Error())
	require.Same(t, before, s.Table())
}

// TestABatchIsVisibleWholeOrNotAtAll has readers look while two identities swap
// what they may: in no table may both, or neither.
func TestABatchIsVisibleWholeOrNotAtAll(t *testing.T) {
	s := datapath.NewState(datapath.Options{})
	_, err := s.Apply(datapath.Batch{AddRules: vector{rules: "r0 g any A; r1 * any D"}.parse(t), AddIdentities: numbered("5 7")})
	require.NoError(t, err)
	may := datapath.Identity{Labels: policy.Labels{{Key: "g"}}}
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				table := s.Table()
				allowed := 0
				for _, name := range []string{"5", "7"} {
					id, _ := table.ID(name)
					if e, _ := table.Lookup(datapath.Egress, id, datapath.TCP, 1); e.Verdict == datapath.Allow {
						allowed++
					}
				}
				if allowed != 1 {
					t.Errorf("%d of the two may", allowed)
					return
				}
			}
		})
	}
	for i := range 500 {
		five, seven := may, datapath.Identity{}
		if i%2 == 0 {
			five, seven = seven, five
		}
		five.Name, seven.Name = "5", "7"
		_, err := s.Apply(datapath.Batch{RemoveIdentities: []string{"5", "7"}, AddIdentities: []datapath.Identity{five, seven}})
		require.NoError(t, err)
	}
	close(stop)
	readers.Wait()
}

func TestAWalkSaysOfEachRuleWhyItDidNotDecide(t *testing.T) {
	rules := vector{rules: "admin r0 h t/80 A; admin r1 g u/80 D; admin r2 g t/81-90 D; admin r3 g any/80 P; admin r4 * any D; r5 g t/80 L; r6 g t/80 A; r7 * any D"}.parse(t)
	rules[5].Verdict = datapath.Log
	seven := datapath.Identity{Name: "x", Labels: policy.Labels{{Key: "g"}}}
	table, err := datapath.Build(rules, []datapath.Identity{seven}, datapath.Options{})
	require.NoError(t, err)
	id, _ := table.ID("x")
	reasons := func(id datapath.ID, p datapath.Protocol, port uint16) (all []string) {
		steps, decided := table.Walk(datapath.Egress, id, p, port)
		require.True(t, decided)
		for _, s := range steps {
			all = append(all, s.Reason)
		}
		return all
	}
	require.Equal(t, []string{
		"the peer is not in h",
		"the protocol is tcp, and the rule is for udp",
		"port 80 is outside 81 to 90",
		"passes the rest of tier admin",
		"skipped: policy p, rule 3 passed the rest of tier admin",
		"log never decides",
		"decides: allow",
	}, reasons(id, datapath.TCP, 80))
	require.Equal(t, []string{
		"the peer has no identity, and the rule is for h",
		"the peer has no identity, and the rule is for g",
		"the peer has no identity, and the rule is for g",
		"the peer has no identity, and the rule is for g",
		"decides: deny",
	}, reasons(datapath.AnyIdentity, datapath.TCP, 80))
	require.Equal(t, "icmp has no ports, and the rule is for some", reasons(id, datapath.ICMP, 80)[3])
	steps, decided := build(t, rules[:1], "5").Walk(datapath.Ingress, 1, datapath.TCP, 80)
	require.False(t, decided)
	require.Empty(t, steps)
}
