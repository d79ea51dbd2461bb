package lint

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/compiler/datapath"
	"github.com/edictdev/edict/internal/compiler/firstmatch"
	"github.com/edictdev/edict/policy"
)

// author is what one wrote: a policy, and another one of the same nodes if there is
// one, each as what it says beside its selector, and its rules.
type author struct{ order, rules, otherOrder, other string }

// advice is a cause of a warning, and what became of it when the advice of its code
// was followed to the letter. asked is a flow that shows the difference, and had and
// has what the table answers for it; empty: the advice is not about a flow.
type advice struct {
	code, advice    string
	cause, followed author
	asked, had, has string
}

const (
	anything, toWeb = `"any"`, `"tcp","ports":{"from":80,"to":80}`
	wide, part      = "10.0.0.0/8", "10.1.0.0/16"
	six             = "fd00::/8"
)

func with(rule, members string) string { return strings.TrimSuffix(rule, "}") + members + "}" }

func redirect(port int, from string) string {
	return with(line("redirect", from, wide, toWeb), fmt.Sprintf(`,"proxy_port":%d`, port))
}

func proves(auth, from string) string {
	return with(line("allow", from, wide, toWeb), fmt.Sprintf(`,"auth":%q`, auth))
}

// advices have every code at least once.
func advices() []advice {
	open, shut := line("allow", wide, wide, anything), line("deny", part, wide, toWeb)
	narrow, wall := line("allow", part, wide, toWeb), line("deny", wide, wide, anything)
	cross := line("deny", wide, "10.9.0.0/16", toWeb) // the narrow one and this overlap, and neither has all of the other
	const opened = `,"default_deny":false`
	noted := line("log", wide, wide, anything)
	const crowded = `{"action":"allow","protocol":"any","source_cidr":"10.0.0.0/8","destination_selector":"crowd"}`
	const own, first, later = `,"priority":7`, `,"priority":6`, `,"priority":8`
	return []advice{
		{CodeOrderFlipped, "set a priority", author{rules: open + "," + shut}, author{order: own, rules: open + "," + shut}, "egress 10.9.0.1 tcp 80", "deny", "allow"},
		{CodeOrderFlipped, "write it first", author{rules: open + "," + shut}, author{rules: shut + "," + open}, "egress 10.9.0.1 tcp 80", "deny", "deny"},
		{CodeEqualLevel, "set a priority", author{rules: shut + "," + open}, author{order: own, rules: shut + "," + open}, "egress 10.9.0.1 tcp 80", "deny", "deny"},
		{CodeEqualLevel, "set different priorities", author{rules: open, other: shut}, author{order: first, rules: open, otherOrder: own, other: shut}, "egress 10.9.0.1 tcp 80", "deny", "allow"},
		{CodeEqualLevel, "set different priorities", author{own, narrow, own, line("log", wide, wide, anything) + "," + cross}, author{later, narrow, own, cross}, "egress 10.9.0.1 tcp 80", "allow", "deny"},
		{CodeEqualLevel, "write rules that do not overlap", author{rules: open, other: shut}, author{rules: line("allow", "10.2.0.0/16", wide, anything), other: shut}, "", "", ""},
		{CodeShadowed, "set a priority and write it first", author{rules: wall + "," + narrow}, author{order: own, rules: narrow + "," + wall}, "egress 10.9.0.1 tcp 80", "deny", "allow"},
		{CodeShadowed, "write it first", author{order: own, rules: wall + "," + narrow}, author{order: own, rules: narrow + "," + wall}, "egress 10.9.0.1 tcp 80", "deny", "allow"},
		{CodeShadowed, "remove one", author{order: own, rules: wall + "," + narrow}, author{order: own, rules: wall}, "egress 10.9.0.1 tcp 80", "deny", "deny"},
		{CodeShadowed, "change the priorities", author{later, narrow, own, wall}, author{first, narrow, own, wall}, "egress 10.9.0.1 tcp 80", "deny", "allow"},
		{CodeShadowed, "change the tiers", author{`,"tier":"baseline"`, narrow, `,"tier":"admin"`, wall}, author{`,"tier":"admin"`, narrow, `,"tier":"normal"`, wall}, "egress 10.9.0.1 tcp 80", "deny", "allow"},
		{CodeShadows, "change their priorities", author{own, wall, later, narrow}, author{own, wall, first, narrow}, "egress 10.9.0.1 tcp 80", "deny", "allow"},
		{CodeShadows, "remove one", author{own, wall, later, narrow}, author{own, wall, later, line("log", part, wide, toWeb)}, "", "", ""},
		{CodeRedirectsDiffer, "name one port in both", author{rules: redirect(1001, wide), other: redirect(1003, part)}, author{rules: redirect(1001, wide), other: redirect(1001, part)}, "", "", ""},
		{CodeRedirectsDiffer, "set different priorities", author{rules: redirect(1001, wide), other: redirect(1003, wide)}, author{later, redirect(1001, wide), own, redirect(1003, wide)}, "egress 10.9.0.1 tcp 80", "redirect 1001", "redirect 1003"},
		{CodeAuthDiffers, "say the same in both", author{rules: proves("required", wide), other: proves("disabled", part)}, author{rules: proves("required", wide), other: proves("required", part)}, "", "", ""},
		{CodeAuthDiffers, "set different priorities", author{rules: proves("required", wide), other: proves("disabled", wide)}, author{later, proves("required", wide), own, proves("disabled", wide)}, "egress 10.9.0.1 tcp 80", "allow required", "allow"},
		{CodeIPv6, "put such rules into a policy of their own", author{rules: open + "," + line("allow", six, six, anything)}, author{rules: open}, "", "", ""},
		{CodeLogSkipped, "remove it", author{rules: open + "," + line("log", wide, wide, anything)}, author{rules: open}, "", "", ""},
		{policy.CodePassIntoNothing, "write allow or deny", author{order: `,"tier":"baseline"`, rules: line("pass", wide, wide, anything)}, author{order: `,"tier":"baseline"`, rules: line("deny", wide, wide, anything)}, "egress 10.9.0.1 tcp 80", "allow", "deny"},
		{CodeDirectionClosed, "add default_deny: false", author{"", narrow, opened, noted}, author{opened, narrow, opened, noted}, "egress 192.0.2.1 tcp 80", "deny", "allow"},
		{CodeOutside, "correct the CIDRs", author{rules: line("allow", "10.2.0.0/16", "10.3.0.0/16", toWeb)}, author{rules: line("allow", part, "10.3.0.0/16", toWeb)}, "egress 10.3.0.1 tcp 80", "deny", "allow"},
		{CodeDirectionOpened, "add a rule that denies the rest", author{order: own, rules: line("log", wide, wide, anything)}, author{order: own, rules: line("log", wide, wide, anything) + "," + line("deny", "0.0.0.0/0", "0.0.0.0/0", anything)}, "egress 192.0.2.1 tcp 80", "allow", "deny"},
		{CodeBlockTooLarge, "name peers by CIDR", author{order: own, rules: crowded}, author{order: own, rules: open}, "egress 10.9.0.1 tcp 80", "deny", "allow"},
		{CodeTooManyEntries, "use wider port ranges", author{rules: line("allow", wide, wide, `"tcp","ports":{"from":1,"to":65534}`)}, author{rules: line("allow", wide, wide, `"tcp","ports":{"from":1,"to":65535}`)}, "egress 10.9.0.1 tcp 80", "allow", "allow"},
	}
}

// A warning that stays when its advice is followed teaches authors to pass over
// warnings.
func TestAdviceThatIsFollowedEndsItsWarning(t *testing.T) {
	has := map[string]bool{CodeMatchesNone: true} // about a selector, whose advice package api follows
	for _, a := range advices() {
		t.Run(a.code+", "+a.advice, func(t *testing.T) {
			has[a.code] = true
			require.Contains(t, a.cause.codes(t), a.code, "the cause")
			require.NotContains(t, a.followed.codes(t), a.code)
			if a.asked != "" {
				require.Equal(t, a.had, a.cause.answer(t, a.asked))
				require.Equal(t, a.has, a.followed.answer(t, a.asked), "the table, as the advice was followed")
			}
		})
	}
	for _, code := range codes {
		require.True(t, has[code], "%s has no pair of a cause and its advice followed", code)
	}
}

// codes are those of the warnings of what the author wrote: of the texts, and of
// what becomes of a node whose table holds 20 entries.
func (a author) codes(t *testing.T) (out []string) {
	mine := content(t, a.order, a.rules)
	found := Content(mine)
	if a.other != "" {
		found = append(found, besideAll(t, NewPolicy("", mine), NewPolicy("other", content(t, a.otherOrder, a.other)))...)
	}
	some := Nodes{Count: 1, First: []policy.NodeID{"n"}}
	for _, d := range []datapath.Direction{datapath.Egress, datapath.Ingress} {
		if closed(enforcedBy(a.heads(t)), d) && !closed(enforcedBy(a.heads(t)[1:]), d) {
			found = append(found, DirectionClosed(d.String(), some))
		}
		// The node is on the source side alone, so a rule cannot close ingress.
		if d == datapath.Egress && !closed(enforcedBy(a.heads(t)), d) && closed(enforcedBy(a.heads(t)[1:]), d) {
			found = append(found, DirectionOpened(d.String(), some))
		}
	}
	if datapath.NewReach(mine).Misses(enforcing(), datapath.Plain(a.heads(t))) {
		found = append(found, Outside(some))
	}
	list := enforcedBy(a.heads(t))
	table, err := datapath.Build(list.Rules, nil, datapath.Options{Closed: list.Closed})
	require.NoError(t, err)
	if firstmatch.Of(table, crowd{}).TooLarge(enforcing().Addresses) {
		found = append(found, BlockTooLarge(some))
	}
	if _, err := datapath.Build(enforcedBy(a.heads(t)).Rules, nil, datapath.Options{Capacity: 20}); err != nil {
		found = append(found, TooManyEntries(some, err))
	}
	for _, w := range found {
		out = append(out, w.Code)
	}
	return out
}

// heads are the author's policy, and the other one.
func (a author) heads(t *testing.T) []datapath.Head {
	heads := []datapath.Head{head(1, content(t, a.order, a.rules))}
	if a.other != "" {
		heads = append(heads, head(2, content(t, a.otherOrder, a.other)))
	}
	return heads
}

// enforcing is a node at 10.1.0.1.
func enforcing() policy.Node {
	return policy.Node{ID: "n", Labels: policy.Labels{{Key: "a"}}, Addresses: policy.Addresses{netip.MustParseAddr("10.1.0.1")}}
}

// crowd has the nodes that selectors name: 5,000.
type crowd struct{}

func (crowd) Members(datapath.Peer) (out []netip.Addr) {
	for n := range 5000 {
		out = append(out, netip.AddrFrom4([4]byte{10, 8, byte(n >> 8), byte(n)}))
	}
	return out
}

func (crowd) Elsewhere(netip.Prefix) []netip.Addr { return nil }

// enforcedBy is its list.
func enforcedBy(heads []datapath.Head) datapath.NodeList {
	return datapath.List(enforcing(), heads)
}

func closed(list datapath.NodeList, d datapath.Direction) bool {
	return list.Closed || slices.ContainsFunc(list.Rules, func(r datapath.Rule) bool { return r.Direction == d && r.ClosesDefault() })
}

// answer asks the node's table about a flow: direction, peer,
// protocol and port.
func (a author) answer(t *testing.T, asked string) string {
	list := enforcedBy(a.heads(t))
	table, err := datapath.Build(list.Rules, nil, datapath.Options{Closed: list.Closed})
	require.NoError(t, err)

	var direction, peer, protocol string
	var port uint16
	_, err = fmt.Sscan(asked, &direction, &peer, &protocol, &port)
	require.NoError(t, err)
	d, _ := datapath.ParseDirection(direction)
	p, _ := datapath.ParseProtocol(protocol)
	e, ok := table.Lookup(d, table.Resolve(netip.MustParseAddr(peer)), p, port)
	switch {
	case !ok:
		return "deny"
	case e.Verdict == datapath.Redirect:
		return fmt.Sprintf("redirect %d", e.ProxyPort)
	case e.Auth == datapath.AuthRequired:
		return e.Verdict.String() + " required"
	}
	return e.Verdict.String()
}

func head(n byte, c policy.Content) datapath.Head {
	return datapath.Head{Policy: uuid.UUID{n}, Revision: policy.Revision{ID: uuid.UUID{n}, Selector: c.Selector, Order: c.Order, Rules: c.Rules}}
}
