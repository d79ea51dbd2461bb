package api_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/policy"
)

// list is what a node's policies come to, a line of text each.
func (p *plane) list(path string) (lines []string, all resource.NodePolicies) {
	a := p.do("GET", path, "")
	p.want(http.StatusOK, "", a)
	all = into[resource.NodePolicies](p.t, a)
	for _, l := range all.Lines {
		lines = append(lines, fmt.Sprintf("%s %s %d %s[%d] %s %s", l.Direction, l.Tier, l.Priority, l.Slug, l.Index, l.Text, l.Reason))
	}
	return lines, all
}

const denyFar = `{"action":"deny","protocol":"any","source_cidr":"10.0.0.0/8","destination_cidr":"10.9.0.0/16"}`

func TestANodesPoliciesAreListedInTheOrderInWhichTheyAreTried(t *testing.T) {
	p := newPlane(t)
	p.put("db", `{"labels":{"role":"db"},"addresses":["10.1.0.1"]}`)
	p.put("web", `{"labels":{"role":"web"},"addresses":["10.2.0.1"]}`)
	p.want(http.StatusCreated, "", p.do("POST", policies, ordered("low", `,"tier":"baseline","default_deny":false`, allowWeb)))
	p.want(http.StatusCreated, "", p.do("POST", policies, ordered("plain", "", fromTen, denyWeb)))
	p.want(http.StatusCreated, "", p.do("POST", policies, ordered("high", `,"tier":"admin","priority":3`, allowWeb, denyFar)))

	enforced, all := p.list("/v1/nodes/db/policies")
	require.Equal(t, []string{
		"ingress admin 3 high[0] allow tcp 5432 from role=web ",
		"ingress normal 1000 plain[1] deny any from role=web ",
		"ingress normal 1000 plain[0] allow tcp 80 from 10.0.0.0/8 ",
		"ingress baseline 1000 low[0] allow tcp 5432 from role=web ",
	}, enforced)
	require.Equal(t, "allow", all.Defaults[0].Verdict)
	require.Equal(t, "deny", all.Defaults[1].Verdict)
	var closing []string
	for _, ref := range all.Defaults[1].Policies {
		closing = append(closing, ref.Slug)
	}
	require.Equal(t, []string{"high", "plain"}, closing)

	whole, _ := p.list("/v1/nodes/db/policies?all")
	require.Len(t, whole, 2*5)
	require.Equal(t, "egress admin 3 high[0] allow tcp 5432 to role=db the node is not on the source side: the policy is for role=web there", whole[0])
	require.Equal(t, "ingress admin 3 high[1] deny any from 10.0.0.0/8 none of the node's addresses is in 10.9.0.0/16", whole[6])
	p.want(http.StatusNotFound, "node_not_found", p.do("GET", "/v1/nodes/nobody/policies", ""))
}

func TestAnExplanationNamesRulesByPlaceAndText(t *testing.T) {
	p := newPlane(t)
	p.put("db", `{"labels":{"role":"db"},"addresses":["10.1.0.1"]}`)
	p.put("web", `{"labels":{"role":"web"},"addresses":["10.2.0.1"]}`)
	pass := `{"action":"pass","protocol":"udp","source_selector":"role=web","destination_selector":"role=db","ports":{"from":1,"to":65535}}`
	p.want(http.StatusCreated, "", p.do("POST", policies, ordered("high", `,"tier":"admin"`, denyFar, pass, denyWeb)))
	p.want(http.StatusCreated, "", p.do("POST", policies, ordered("open", `,"default_deny":false`, fromTen)))
	explain := func(flow string) (v resource.FlowVerdict, considered []string) {
		a := p.do("GET", "/v1/nodes/db/explain?direction=ingress&"+flow, "")
		p.want(http.StatusOK, "", a)
		v = into[resource.FlowVerdict](t, a)
		for _, c := range v.Considered {
			considered = append(considered, fmt.Sprintf("%s[%d] %t %t %s: %s", c.Slug, c.Index, c.Applies, c.Matched, c.Text, c.Reason))
		}
		return v, considered
	}
	v, considered := explain("protocol=tcp&port=80&peer=web")
	require.Equal(t, []string{
		"high[0] false false deny any from 10.0.0.0/8: does not apply: none of the node's addresses is in 10.9.0.0/16",
		"high[1] true false pass udp 1-65535 from role=web: the protocol is tcp, and the rule is for udp",
		"high[2] true true deny any from role=web: decides: deny",
	}, considered)
	require.Equal(t, v.Considered[2].PlacedRule, *v.Rule)
	require.Equal(t, "admin", v.Rule.Tier)
	require.Nil(t, v.Default)

	// A free address is a block, or nobody; a node has its name.
	v, considered = explain("protocol=udp&port=53&peer=web")
	require.Equal(t, "high[2] true true deny any from role=web: skipped: rule 1 of high passed the rest of tier admin", considered[2])
	require.Equal(t, "deny", v.Default.Verdict)
	require.Equal(t, "high", v.Default.Policies[0].Slug)
	require.Len(t, v.Default.Policies, 1, "open has no part in it")
	v, _ = explain("protocol=tcp&port=80&peer=10.77.0.1")
	require.Equal(t, "allow tcp 80 from 10.0.0.0/8", v.Rule.Text)
	require.NotZero(t, v.Entry.Identity)
	v, _ = explain("protocol=tcp&port=80&peer=192.0.2.1")
	require.Nil(t, v.Rule)
}

func TestANodeThatNoRuleCanMeetIsTold(t *testing.T) {
	p := newPlane(t)
	p.put("db", `{"labels":{"role":"db"},"addresses":["172.16.0.1","172.16.0.2"]}`)
	p.want(http.StatusCreated, "", p.do("POST", policies, ordered("walls", "", fromTen, denyFar)))
	a := p.do("GET", "/v1/nodes/db/explain?direction=ingress&protocol=tcp&port=80&peer=10.0.0.1", "")
	v := into[resource.FlowVerdict](t, a)
	require.Equal(t, "deny", v.Verdict, "only plain policies match it")
	require.Len(t, v.Warnings, 1, "once, not once a CIDR")
	require.Equal(t, "node_outside_cidrs", v.Warnings[0].Code)
	require.Contains(t, v.Warnings[0].Detail, "172.16.0.1, 172.16.0.2")
	require.Len(t, v.Considered, 2)
	p.put("db", `{"labels":{"role":"db"},"addresses":["172.16.0.1","10.9.0.2"]}`)
	_, all := p.list("/v1/nodes/db/policies")
	require.Empty(t, all.Warnings)
	p.put("db", `{"labels":{"role":"db"}}`)
	_, all = p.list("/v1/nodes/db/policies")
	require.Len(t, all.Warnings, 1)
	require.Contains(t, all.Warnings[0].Detail, "every other CIDR of policy walls")
}

// A dry run tells once of the nodes that a policy would not touch.
func TestADryRunTellsOfNodesThatNoRuleCanMeet(t *testing.T) {
	p := newPlane(t)
	dry := func() []resource.Warning {
		a := p.do("POST", policies+":dry-run", `{"selector":{"source":"role=web","destination":"role=db"},"rules":[`+fromTen+`,`+denyFar+`]}`)
		p.want(http.StatusOK, "", a)
		var found []resource.Warning
		for _, w := range into[resource.DryRun](t, a).Warnings {
			if w.Code == "node_outside_cidrs" {
				found = append(found, w)
			}
		}
		return found
	}
	p.put("db", `{"labels":{"role":"db"},"addresses":["10.1.0.1"]}`)
	p.put("bare", `{"labels":{"role":"db"}}`)
	p.put("other", `{"labels":{"role":"cache"},"addresses":["172.16.0.1"]}`)
	require.Empty(t, dry())
	p.put("web", `{"labels":{"role":"web"},"addresses":["172.16.0.2"]}`)
	require.Len(t, dry(), 1)
	require.Contains(t, dry()[0].Detail, "no rule applies to 1 node that it matches, for want of an address in a CIDR: web;")
	p.put("db2", `{"labels":{"role":"db"},"addresses":["172.16.0.3"]}`)
	require.Len(t, dry(), 1)
	require.Contains(t, dry()[0].Detail, "no rule applies to 2 nodes that it matches, for want of an address in a CIDR: db2, web;")
	require.Equal(t, "/rules", dry()[0].Pointer)
}

// A dry run tells of a selector that matches no node of a project that has some.
func TestADryRunTellsOfASelectorThatMatchesNobody(t *testing.T) {
	p := newPlane(t)
	dry := func(source, destination string) (at []string) {
		a := p.do("POST", policies+":dry-run", `{"selector":{"source":"role=`+source+`","destination":"role=`+destination+`"},"rules":[`+fromTen+`]}`)
		p.want(http.StatusOK, "", a)
		for _, w := range into[resource.DryRun](t, a).Warnings {
			if w.Code == "matches_no_node" {
				at = append(at, w.Pointer)
			}
		}
		return at
	}
	require.Empty(t, dry("web", "db"), "nobody is there yet")
	p.put("db", `{"labels":{"role":"db"},"addresses":["10.1.0.1"]}`)
	require.Empty(t, dry("web", "db"), "one side is enough")
	require.Equal(t, []string{"/selector"}, dry("web", "webb"))
}

// So many policies that they wait for a turn are listed like few.
func TestAListOfManyPoliciesIsWhole(t *testing.T) {
	gen.Unraced()
	p := newPlane(t)
	p.put("db", `{"labels":{"role":"db"},"addresses":["10.1.0.1"]}`)
	const many = 33
	for i := range many {
		p.want(http.StatusCreated, "", p.do("POST", policies, ordered(fmt.Sprintf("p%d", i), fmt.Sprintf(`,"priority":%d`, i), allowWeb)))
	}
	lines, all := p.list("/v1/nodes/db/policies?all=true")
	require.Len(t, lines, 2*many)
	for i, l := range all.Lines[many:] {
		require.Equal(t, fmt.Sprintf("p%d", i), l.Slug)
		require.True(t, l.Applies)
	}
}

// moving is a read model of which a node moves when it is looked at a number of times.
type moving struct {
	*projector.Projector
	looks int // until then
	move  func()
}

func (m *moving) Enforcement(id policy.NodeID) (*projector.Enforcement, bool, error) {
	if m.looks--; m.looks == 0 {
		m.move()
	}
	return m.Projector.Enforcement(id)
}

// A node moves while a flow is explained: what was one end of a rule is the other then,
// and the rules that apply are the same ones.
func TestAFlowIsExplainedWhileItsNodeMoves(t *testing.T) {
	for _, x := range []struct{ from, to, direction string }{{"10.1.0.1", "10.2.0.1", "ingress"}, {"10.2.0.1", "10.1.0.1", "egress"}} {
		for looks := 1; ; looks++ {
			m := &moving{}
			p := newPlane(t, func(d *api.Deps) {
				m.Projector = d.Model.(*projector.Projector)
				d.Model = m
			})
			place := func(at string) { p.put("n1", `{"labels":{"role":"web"},"addresses":["`+at+`"]}`) }
			place(x.from)
			p.want(http.StatusCreated, "", p.do("POST", policies, `{"slug":"web","display_name":"","selector":{"source":"role=web","destination":"role=web"},"rules":[`+
				rule("allow", "tcp", "0.0.0.0/0", "10.9.0.0/16", somePorts)+`,`+rule("allow", "tcp", "10.1.0.0/16", "10.2.0.0/16", somePorts)+`]}`))
			m.looks, m.move = looks, func() { place(x.to) }
			a := p.do("GET", "/v1/nodes/n1/explain?direction="+x.direction+"&peer=10.3.0.1&protocol=tcp&port=9", "")
			p.want(http.StatusOK, "", a)
			require.Equal(t, "deny", into[resource.FlowVerdict](t, a).Verdict)
			if m.looks > 0 { // it was not looked at so often
				require.Greater(t, looks, 2)
				break
			}
		}
	}
}
