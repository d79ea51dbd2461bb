package policy

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const draftBody = `{"slug":"web","display_name":"Web","selector":{"source":"role=web","destination":"role=db"},` +
	`"rules":[{"action":"allow","protocol":"tcp","source_cidr":"10.0.0.0/8","destination_cidr":"10.1.0.0/16","ports":{"from":5432,"to":5432}}]}`

func TestDecodeDraft(t *testing.T) {
	d, err := DecodeDraft([]byte(draftBody))
	require.NoError(t, err)
	require.Equal(t, Draft{
		Slug: "web", DisplayName: "Web",
		Content: Content{
			Selector: Selector{Expr{{Equal, "role", []string{"web"}}}, Expr{{Equal, "role", []string{"db"}}}},
			Rules: []Rule{{
				Action: Allow, Protocol: TCP, Ports: Ports{5432, 5432},
				Source: netip.MustParsePrefix("10.0.0.0/8"), Destination: netip.MustParsePrefix("10.1.0.0/16"),
			}},
		},
	}, d)

	_, err = DecodeDraft([]byte(`{"display_name":"\u0000","rules":[],"id":1}`))
	require.Equal(t, []string{"/display_name invalid_display_name", "/rules rules_out_of_range", "/id unknown_field", "/slug required", "/selector required"}, faultsOf(err.(Violations)))
	shape, ok := err.(Violations).Shape()
	require.True(t, ok)
	require.Equal(t, "/id", shape.Pointer)
	_, err = DecodeDraft([]byte(`{"slug":"W","selector":{"source":"a","destination":"b"},"rules":[]}`))
	_, ok = err.(Violations).Shape()
	require.False(t, ok)
}

// What is of another shape is told with an example, and a rule's sides with both ways to say
// who is there.
func TestAFaultShowsWhatToWrite(t *testing.T) {
	_, err := DecodeDraft([]byte(`{"slug":"web","selector":"role=web","rules":[{"action":"allow","protocol":"tcp","destination_selector":"role=db","ports":80}]}`))
	list := err.(Violations)
	require.Len(t, list, 3)
	require.Equal(t, `want a selector, such as {"source":"role=web","destination":"role=db"}, found a string`, list[0].Detail)
	require.Equal(t, `want a port range, such as {"from":80,"to":80}, found a number`, list[1].Detail)
	require.Equal(t, `source_cidr is required, or source_selector, such as "role=web"`, list[2].Detail)
}

func TestDecodePatch(t *testing.T) {
	p, err := DecodePatch([]byte(`{}`))
	require.NoError(t, err)
	require.Equal(t, Patch{}, p, "nothing said, all inherited")

	p, err = DecodePatch([]byte(`{"display_name":"","expected_revision_id":null}`))
	require.NoError(t, err)
	require.Equal(t, "", *p.DisplayName, "an empty name is a name")
	require.Nil(t, p.Expected)

	p, err = DecodePatch([]byte(`{"expected_revision_id":"0193b5a0-0000-7000-8000-000000000003","selector":{"source":"a","destination":"b"},` + draftBody[strings.Index(draftBody, `"rules"`):]))
	require.NoError(t, err)
	require.Equal(t, uuid.MustParse("0193b5a0-0000-7000-8000-000000000003"), *p.Expected)
	require.Equal(t, "a", p.Selector.Source.String())
	require.Len(t, p.Rules, 1)

	_, err = DecodePatch([]byte(`{"slug":"other","rules":[]}`))
	require.Equal(t, []string{"/slug unknown_field", "/rules rules_out_of_range"}, faultsOf(err.(Violations)))
}

func TestDecodeNodes(t *testing.T) {
	facts, err := DecodeFacts([]byte(`{}`))
	require.NoError(t, err)
	require.Equal(t, Facts{}, facts)
	_, err = DecodeFacts([]byte(`{"id":"a"}`))
	require.Equal(t, []string{"/id unknown_field"}, faultsOf(err.(Violations)))

	id, facts, err := DecodeNodeLine([]byte(`{"id":"node-17","labels":{"b":"2","a":"1"},"addresses":["10.0.0.1"]}`))
	require.NoError(t, err)
	require.Equal(t, NodeID("node-17"), id)
	require.Equal(t, Labels{{"a", "1"}, {"b", "2"}}, facts.Labels)
	require.Equal(t, Addresses{netip.MustParseAddr("10.0.0.1")}, facts.Addresses)

	id, _, err = DecodeNodeLine([]byte(`{"id":"node-17","labels":[]}`))
	require.Error(t, err)
	require.Equal(t, NodeID("node-17"), id, "the line can be reported by its id")
	_, _, err = DecodeNodeLine([]byte(`{}`))
	require.Equal(t, []string{"/id required"}, faultsOf(err.(Violations)))
}

func TestDecodePreview(t *testing.T) {
	body := `{"selector"` + strings.SplitN(draftBody, `"selector"`, 2)[1]
	c, err := DecodePreview([]byte(body))
	require.NoError(t, err)
	require.Equal(t, `{"source":"role=web","destination":"role=db"}`, string(AppendSelector(nil, c.Selector)))
	require.Equal(t, strings.TrimSuffix(body[strings.Index(body, `"rules":`)+len(`"rules":`):], "}"), string(AppendRules(nil, c.Rules)))
	_, err = DecodePreview([]byte(`{"slug":"x"}`))
	require.Equal(t, []string{"/slug unknown_field", "/selector required", "/rules required"}, faultsOf(err.(Violations)))
}

func TestCIDRs(t *testing.T) {
	for _, good := range []string{"0.0.0.0/0", "10.0.0.0/8", "10.1.2.3/32", "::/0", "fd00::/8", "2001:db8::1/128"} {
		p, v := parseCIDR(good)
		require.Empty(t, v)
		require.Equal(t, good, p.String())
	}
	p, v := parseCIDR("2001:DB8:0::/32")
	require.Empty(t, v)
	require.Equal(t, "2001:db8::/32", p.String(), "the author's spelling is not kept")
	for in, says := range map[string]string{
		"10.0.0.1/8": "write 10.0.0.0/8", "2001:db8::1/32": "write 2001:db8::/32", "10.0.0.1": "write 10.0.0.1/32", "::1": "write ::1/128",
		"": "not a CIDR", "10.0.0.0/33": "not a CIDR", "10.0.0.0/08": "not a CIDR", "010.0.0.0/8": "not a CIDR", "fe80::%eth0/64": "not a CIDR",
		"fe80::1%eth0": "not a CIDR", "::ffff:10.0.0.0/104": "write it as IPv4", "any": "not a CIDR", "10.0.0.0/8 ": "not a CIDR",
	} {
		_, v := parseCIDR(in)
		require.NotEmpty(t, v.Code, in)
		require.Contains(t, v.Detail, says, in)
	}
}

func TestRuleOrderIsBytewiseOnCanonicalText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyRule(t), anyRule(t)
		switch rapid.IntRange(0, 4).Draw(t, "share") {
		case 3:
			b = Rule{
				a.Action, a.Protocol, a.Source, a.Destination, a.Ports,
				a.SourceSelector, a.DestinationSelector, b.ProxyPort, b.ListenerPriority, b.Auth, b.Direction,
			}
		case 1:
			b.Source, b.Destination = a.Source, a.Destination
		case 2:
			b.Source, b.Destination, b.Protocol, b.Ports = a.Source, a.Destination, a.Protocol, a.Ports
		}
		text := func(r Rule) string {
			return strings.Join([]string{
				string(AppendCIDR(nil, r.Source)), string(AppendCIDR(nil, r.Destination)), string(r.Protocol),
				string(rune(r.Ports.From>>8)) + string(rune(r.Ports.From&255)), string(rune(r.Ports.To>>8)) + string(rune(r.Ports.To&255)), string(r.Action),
				r.SourceSelector, r.DestinationSelector, fmt.Sprintf("%05d", r.ProxyPort), fmt.Sprintf("%03d", r.ListenerPriority), string(r.Auth), string(r.Direction),
			}, "\x00")
		}
		require.Equal(t, strings.Compare(text(a), text(b)), a.Compare(b))
		require.Equal(t, a.Compare(b), -b.Compare(a))
	})
}

func FuzzDraftCIDR(f *testing.F) {
	for _, s := range []string{"10.0.0.0/8", "10.0.0.1/8", "::ffff:10.0.0.0/104", "fe80::1%e/64", "0/0", "::/0", `"`, "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		quoted, err := json.Marshal(s)
		if err != nil {
			return
		}
		body := strings.Replace(draftBody, `"10.0.0.0/8"`, string(quoted), 1)
		d, err := DecodeDraft([]byte(body))
		if err != nil {
			for _, v := range err.(Violations) {
				if !strings.HasPrefix(v.Pointer, "/rules/0/") {
					t.Fatalf("%q: a fault elsewhere: %v", s, v)
				}
			}
			return
		}
		p := d.Rules[0].Source
		if p != p.Masked() || !p.Addr().Is4() {
			t.Fatalf("%q was accepted as %v", s, p)
		}
	})
}
