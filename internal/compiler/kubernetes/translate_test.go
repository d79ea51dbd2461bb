package kubernetes

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/policy"
)

func network(name, spec string) []byte {
	return []byte(`{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"name":"` + name + `"},"spec":` + spec + `}`)
}

func overall(name, spec string) []byte {
	return []byte(`{"apiVersion":"policy.networking.k8s.io/v1alpha2","kind":"ClusterNetworkPolicy","metadata":{"name":"` + name + `"},"spec":` + spec + `}`)
}

func pointers(items []Item) (all []string) {
	for _, i := range items {
		all = append(all, i.Pointer)
	}
	return all
}

func TestEachThingThatCannotBeExpressedIsAnItem(t *testing.T) {
	const subject = `"tier":"Admin","priority":1,"subject":{"namespaces":{}}`
	for _, c := range []struct {
		doc  []byte
		want string // the pointers
	}{
		{network("a", `{"podSelector":{},"ingress":[{"ports":[{"port":"http"},{"port":80}]}]}`), "/spec/ingress/0/ports/0/port"},
		{network("a", `{"podSelector":{},"ingress":[{"ports":[{"port":80,"endPort":79}]}]}`), "/spec/ingress/0/ports/0/endPort"},
		{
			network("a", `{"podSelector":{},"ingress":[{"ports":[{"endPort":79},{"port":0},{"protocol":"DCCP"}]}]}`),
			"/spec/ingress/0/ports/0/endPort /spec/ingress/0/ports/1/port /spec/ingress/0/ports/2/protocol",
		},
		{
			network("a", `{"podSelector":{},"ingress":[{"from":[{},{"ipBlock":{"cidr":"10.0.0.0/8"},"podSelector":{}},{"ipBlock":{"cidr":"10"}}]}]}`),
			"/spec/ingress/0/from/0 /spec/ingress/0/from/1 /spec/ingress/0/from/2/ipBlock/cidr",
		},
		{
			network("a", `{"podSelector":{},"ingress":[{"from":[],"peers":[]}],"egress":[{"to":[{"fqdn":"x"}]}],"log":true}`),
			"/spec/log /spec/ingress/0/peers /spec/egress/0/to/0/fqdn",
		},
		{network("a", `{"podSelector":{"matchExpressions":[{"key":"a","operator":"Gt","values":["1"]}]}}`), "/spec/podSelector/matchExpressions/0 "},
		{network("a", `{"podSelector":{"matchLabels":{"a b":"c"}}}`), "/spec/podSelector "},
		{
			network("a", `{"podSelector":{},"ingress":[{"from":[{"podSelector":{"matchLabels":{"app":null}}},{"namespaceSelector":{"matchLabels":{"team":null}}}]}]}`),
			"/spec/ingress/0/from/0/podSelector/matchLabels/app /spec/ingress/0/from/1/namespaceSelector/matchLabels/team",
		},
		{network("a", `{"podSelector":{"matchLabels":{"app":null}}}`), "/spec/podSelector/matchLabels/app "},
		{network("a", `{"podSelector":{"matchLabels":{"app":"web,tier"}}}`), "/spec/podSelector "},
		{network("a", `{"podSelector":{"matchLabels":{"app,tier":"web"}}}`), "/spec/podSelector "},
		{network("a", `{"podSelector":{"matchLabels":{"app":" web"}}}`), "/spec/podSelector "},
		{
			network("a", `{"podSelector":{},"ingress":[{"from":[{"podSelector":{"matchExpressions":[{"key":"app","operator":"In","values":["x,y"]}]}}]}]}`),
			"/spec/ingress/0/from/0",
		},
		{network("a", `{"podSelector":{},"policyTypes":["Sideways"]}`), "/spec/policyTypes/0 "},
		{network("a", `[]`), "/spec "},
		{network("", `{}`), "/metadata"},
		{
			overall("c", `{`+subject+`,"egress":[{"action":"Accept","to":[{"nodes":{}},{"domainNames":["a.example"]},{"networks":["10.0.0.0/8"]}]}]}`),
			"/spec/egress/0/to/0/nodes /spec/egress/0/to/1/domainNames /spec/egress/0",
		},
		{
			overall("c", `{`+subject+`,"ingress":[{"action":"Accept","from":[{"namespaces":{}}],"protocols":[{"destinationNamedPort":"x"},{"tcp":{"destinationPort":{"number":1,"range":{}}}}]}]}`),
			"/spec/ingress/0/protocols/0/destinationNamedPort /spec/ingress/0/protocols/1/tcp/destinationPort /spec/ingress/0",
		},
		{overall("c", `{`+subject+`,"ingress":[{"action":"Accept","from":[]}]}`), "/spec/ingress/0/from /spec/ingress/0"},
		{overall("c", `{"tier":"Normal","priority":1,"subject":{"namespaces":{}}}`), "/spec/tier "},
		{overall("c", `{"tier":"Admin","priority":1001,"subject":{"namespaces":{}}}`), "/spec/priority "},
		{overall("c", `{"tier":"Admin","priority":1,"subject":{}}`), "/spec/subject "},
		{overall("c", `{`+subject+`,"egress":[{"action":"Deny","to":[{"networks":[]}]}]}`), "/spec/egress/0/to/0/networks /spec/egress/0"},
		{[]byte(`{"apiVersion":"v1","kind":"Service"}`), ""},
		{[]byte(`{"apiVersion":"v1","apiVersion":"v1","kind":"List"}`), "/apiVersion"},
	} {
		res := Translate([][]byte{c.doc}, Options{Namespace: "default"})
		require.Equal(t, c.want, strings.Join(pointers(res.Items), " "), "%s\n%v", c.doc, res.Items)
	}
}

func TestADenyThatCannotBeExpressedWholeDeniesAll(t *testing.T) {
	for _, action := range []string{"Deny", "Pass", "Reject"} {
		res := Translate([][]byte{overall("c", `{"tier":"Admin","priority":1,"subject":{"namespaces":{}},"egress":[{"action":"`+action+
			`","to":[{"nodes":{}}],"protocols":[{"tcp":{}}]}]}`)}, Options{Namespace: "default"})
		require.NotEmpty(t, res.Items)
		require.Len(t, res.Policies, 1+2) // two for what nothing decides
		require.Equal(t, `[{"action":"deny","protocol":"any","destination_cidr":"0.0.0.0/0","source_selector":"namespace:kubernetes.io/metadata.name","direction":"egress"},`+
			`{"action":"deny","protocol":"any","destination_cidr":"::/0","source_selector":"namespace:kubernetes.io/metadata.name","direction":"egress"}]`,
			string(policy.AppendRules(nil, res.Policies[0].Rules)))
	}
}

// Beside objects that speak of the other direction, or of its tier, nothing is lost:
// the oracle shows that what comes of them is the same.
func TestOneDirectionTakesNothingFromTheOther(t *testing.T) {
	cluster := func(tier, way, action string) []byte {
		peers := map[string]string{"ingress": "from", "egress": "to"}[way]
		return overall("c-"+way, `{"tier":"`+tier+`","priority":1,"subject":{"namespaces":{}},"`+way+
			`":[{"action":"`+action+`","`+peers+`":[{"namespaces":{}}]}]}`)
	}
	in, out := network("in", `{"podSelector":{}}`), network("out", `{"podSelector":{},"policyTypes":["Egress"]}`)
	for i, docs := range [][][]byte{
		{in, out},
		{out, cluster("Admin", "ingress", "Accept")},
		{cluster("Admin", "egress", "Deny"), cluster("Baseline", "ingress", "Accept")},
		{cluster("Admin", "egress", "Pass"), cluster("Admin", "ingress", "Deny")},
		{in, cluster("Baseline", "egress", "Deny")},
		{in, out, cluster("Baseline", "ingress", "Deny")},
	} {
		res := Translate(docs, Options{Namespace: "default"})
		require.Empty(t, res.Items, "%d", i)
		for _, p := range res.Policies {
			for _, r := range p.Rules {
				require.Contains(t, p.Slug, "--"+string(r.Direction), "%d", i)
			}
		}
	}
}

// What a set loses makes it narrower than its source, or may make it wider.
func TestALossThatMayLetMoreThroughIsMarked(t *testing.T) {
	const subject = `"tier":"Admin","priority":1,"subject":{"namespaces":{}}`
	many := func(action string) []byte {
		one := `{"action":"` + action + `","to":[{"networks":["10.0.0.0/8"]}],"protocols":[{"tcp":{"destinationPort":{"number":%d}}}]}`
		rules := make([]string, policy.MaxRules+1)
		for i := range rules {
			rules[i] = fmt.Sprintf(one, i+1)
		}
		return overall("c", `{`+subject+`,"egress":[`+strings.Join(rules, ",")+`]}`)
	}
	for name, c := range map[string]struct {
		doc   []byte
		wider bool
	}{
		"a port of an allow":                  {network("a", `{"podSelector":{},"ingress":[{"ports":[{"port":"http"}]}]}`), false},
		"a peer of an allow":                  {network("a", `{"podSelector":{},"ingress":[{"from":[{}]}]}`), false},
		"an Accept in part":                   {overall("c", `{`+subject+`,"egress":[{"action":"Accept","to":[{"nodes":{}}]}]}`), false},
		"a Deny that becomes one of all":      {overall("c", `{`+subject+`,"egress":[{"action":"Deny","to":[{"nodes":{}}]}]}`), false},
		"no policy":                           {[]byte(`{"apiVersion":"v1","kind":"Service"}`), false},
		"too many Accepts":                    {many("Accept"), false},
		"too many Denies":                     {many("Deny"), true},
		"too many Passes":                     {many("Pass"), true},
		"pods that cannot be selected":        {network("a", `{"podSelector":{"matchLabels":{"a b":"c"}}}`), true},
		"an unknown direction":                {network("a", `{"podSelector":{},"policyTypes":["Sideways"]}`), true},
		"an unknown field of what it says":    {network("a", `{"podSelector":{},"ingress":[{}],"only":"tcp"}`), true},
		"an unknown tier":                     {overall("c", `{"tier":"Normal","priority":1,"subject":{"namespaces":{}}}`), true},
		"egress that is no list":              {network("a", `{"podSelector":{},"egress":{}}`), true},
		"rules that are no list":              {overall("c", `{`+subject+`,"ingress":{}}`), true},
		"no name":                             {network("", `{}`), true},
		"a policy of a kind that is not read": {[]byte(`{"apiVersion":"policy.networking.k8s.io/v1alpha1","kind":"AdminNetworkPolicy"}`), true},
		"a list of a kind that is not read":   {[]byte(`{"apiVersion":"cilium.io/v2","kind":"CiliumNetworkPolicyList"}`), true},
		"a member that is written twice":      {[]byte(`{"apiVersion":"v1","apiVersion":"v1","kind":"List"}`), true},
		"an object that is written twice":     {[]byte(`{"apiVersion":"v1","kind":"List","metadata":{},"items":[` + string(network("a", `{"podSelector":{}}`)) + `,` + string(network("a", `{"podSelector":{}}`)) + `]}`), true},
		"an item that does not say its kind":  {[]byte(`{"apiVersion":"v1","kind":"List","items":[{"metadata":{"name":"a"},"spec":{"podSelector":{}}}]}`), true},
		"a Deny of no networks":               {overall("c", `{`+subject+`,"egress":[{"action":"Deny","to":[{"networks":[]}]}]}`), false},
		"items that are no list":              {[]byte(`{"apiVersion":"v1","kind":"List","items":{}}`), true},
	} {
		t.Run(name, func(t *testing.T) {
			res := Translate([][]byte{c.doc}, Options{Namespace: "default"})
			require.NotEmpty(t, res.Items)
			require.Equal(t, c.wider, res.Wider(), "%v", res.Items)
		})
	}
}

func TestListsAreReadItemByItem(t *testing.T) {
	list := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"List","metadata":{},"items":[%s,%s]}`,
		network("a", `{"podSelector":{}}`), network("b", `{"podSelector":{},"x":1}`))
	require.True(t, Recognize(list))
	require.False(t, Recognize([]byte(`{"slug":"apiVersion"}`)))
	res := Translate([][]byte{list}, Options{Namespace: "default"})
	require.Equal(t, 2, res.Objects)
	require.Equal(t, []string{"/items/1/spec/x"}, pointers(res.Items))
}

// TestItemsOfATypedListAreOfItsKind: the API server does not say it again in each.
func TestItemsOfATypedListAreOfItsKind(t *testing.T) {
	for kind, group := range map[string]string{"NetworkPolicy": networkGroup, "ClusterNetworkPolicy": betaGroup} {
		spec := map[string]string{
			"NetworkPolicy":        `{"podSelector":{}}`,
			"ClusterNetworkPolicy": `{"tier":"Admin","priority":1,"subject":{"namespaces":{}}}`,
		}[kind]
		list := fmt.Appendf(nil, `{"apiVersion":%q,"kind":"%sList","metadata":{},"items":[{"metadata":{"name":"a"},"spec":%s}]}`, group, kind, spec)
		res := Translate([][]byte{list}, Options{Namespace: "default"})
		require.Empty(t, res.Items)
		require.Equal(t, 1, res.Objects, kind)
	}
}

// TestAnObjectThatIsTooLargeIsNotWorkedOut: peers and ports of one rule multiply, and an
// exception cuts a network into as many as its bits. One object of a tenant must not take
// the memory of whoever translates it.
func TestAnObjectThatIsTooLargeIsNotWorkedOut(t *testing.T) {
	list := func(n int, one string) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(one, i>>8, i&255))
		}
		return strings.Join(all, ",")
	}
	peers := list(300, `{"ipBlock":{"cidr":"10.0.%d.%d/32"}}`)
	ports := list(300, `{"port":1%d%03d}`)
	except := list(3000, `"10.%d.%d.1/32"`)
	for name, doc := range map[string][]byte{
		"peers and ports": network("a", `{"podSelector":{},"ingress":[{"from":[`+peers+`],"ports":[`+ports+`]}]}`),
		"exceptions":      network("a", `{"podSelector":{},"ingress":[{"from":[{"ipBlock":{"cidr":"10.0.0.0/8","except":[`+except+`]}}]}]}`),
	} {
		r := &reader{}
		v, ok := parse(r, doc)
		require.True(t, ok)
		all := objects(v, Options{Namespace: "default"})
		require.Len(t, all, 1)
		require.LessOrEqual(t, len(all[0].ingress.rules[0].peers), policy.MaxRules+1, name)
		require.LessOrEqual(t, len(all[0].ingress.content(policy.Normal, allowPriority).Rules), policy.MaxRules+1, name)
		res := Translate([][]byte{doc}, Options{Namespace: "default"})
		require.Equal(t, []string{""}, pointers(res.Items), "%v", res.Items)
		require.False(t, res.Wider(), "it is isolated still")
	}
}

func TestSlugsAreSlugsAndStayApart(t *testing.T) {
	seen := map[string]string{}
	long := strings.Repeat("a", 63)
	for _, o := range []object{
		{kind: kinds[0], namespace: "a", name: "b"},
		{kind: kinds[0], namespace: "a--b", name: "c"},
		{kind: kinds[0], namespace: "a", name: "b--c"},
		{kind: kinds[0], namespace: "a", name: "b.c"},
		{kind: kinds[0], namespace: "a", name: "b-c"},
		{kind: kinds[0], namespace: long, name: long},
		{kind: kinds[0], namespace: long, name: long + "b"},
		{kind: kinds[1], name: "a"},
		{kind: kinds[1], name: "a--b"},
		{kind: kinds[2], name: "a"},
		{kind: kinds[3], name: "a"},
	} {
		for _, part := range []string{"ingress", "egress", "ingress-isolate", "egress-isolate"} {
			slug := o.slug(part)
			require.True(t, Owns(slug))
			require.Empty(t, seen[slug], slug)
			seen[slug] = o.id()
			body, err := json.Marshal(map[string]any{
				"slug": slug, "selector": map[string]string{"source": "a", "destination": "b"},
				"rules": []any{map[string]string{"action": "allow", "protocol": "any", "source_cidr": "::/0", "destination_cidr": "::/0"}},
			})
			require.NoError(t, err)
			_, err = policy.DecodeDraft(body)
			require.NoError(t, err)
		}
	}
}

func FuzzTranslateNeverPanics(f *testing.F) {
	f.Add(network("a", `{"podSelector":{},"ingress":[{"from":[{"ipBlock":{"cidr":"10.0.0.0/8","except":["10.1.0.0/16"]}}]}]}`))
	f.Add(overall("c", `{"tier":"Admin","priority":1,"subject":{"pods":{"namespaceSelector":{},"podSelector":{}}},"ingress":[null]}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		for _, p := range Translate([][]byte{doc}, Options{Namespace: "default"}).Policies {
			_, err := policy.DecodeDraft(policy.AppendDraft(nil, p.Draft))
			require.NoError(t, err)
		}
	})
}

// TestNoObjectTakesThePlaceOfAnother: who looks for a name of which the slug ends in a given
// hash finds it within a second.
func TestNoObjectTakesThePlaceOfAnother(t *testing.T) {
	of := func(namespace, name, spec string) []byte {
		return []byte(`{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"namespace":"` + namespace + `","name":"` + name + `"},"spec":` + spec + `}`)
	}
	const closed, open = `{"podSelector":{}}`, `{"podSelector":{},"ingress":[{}]}`
	team := strings.Repeat("team-", 10)
	victim, other := of(team+"aa", "p-153351", open), of(team+"ab", "p-11258", open)
	require.Equal(t, Slugs("NetworkPolicy", team+"aa", "p-153351")[0], Slugs("NetworkPolicy", team+"ab", "p-11258")[0])

	res := Translate([][]byte{victim, other}, Options{})
	drafts := map[string]int{}
	for _, p := range res.Policies {
		if !Rest(p.Slug) {
			require.NotContains(t, drafts, p.Slug)
			drafts[p.Slug] = p.Document
		}
	}
	require.Len(t, drafts, 2)
	for _, document := range drafts {
		require.Zero(t, document, "the first stays whole")
	}
	require.Len(t, res.Items, 1)
	require.Equal(t, 1, res.Items[0].Document)
	require.True(t, res.Wider())
	require.Contains(t, res.Items[0].Reason, "NetworkPolicy "+team+"ab/p-11258 is left out: its policy would have the slug")
	require.Contains(t, res.Items[0].Reason, "which is of NetworkPolicy "+team+"aa/p-153351; give it another name")

	res = Translate([][]byte{of(team+"aa", "p-153351", `{"podSelector":{},"log":true,"policyTypes":["Sideways"]}`), of(team+"ab", "p-11258", closed)}, Options{Whole: true})
	for _, p := range res.Policies {
		require.True(t, Rest(p.Slug), "what cannot be read keeps its slug, too")
	}
}
