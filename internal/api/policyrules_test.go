package api_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
)

// Policies are found by the words of a rule of their heads.
func TestPoliciesAreFoundByTheirRules(t *testing.T) {
	p := newPlane(t)
	make := func(slug, rules string) {
		a := p.do("POST", policies, `{"slug":"`+slug+`","selector":{"source":"role=web","destination":"role=db"},"rules":[`+rules+`]}`)
		p.want(http.StatusCreated, "", a)
	}
	const postgres = `{"action":"allow","protocol":"tcp","source_cidr":"10.0.0.0/8","destination_cidr":"10.1.0.0/16","ports":{"from":5432,"to":5432}}`
	const dns = `{"action":"allow","protocol":"udp","source_cidr":"10.0.0.0/8","destination_selector":"app=dns","ports":{"from":53,"to":54}}`
	make("one", postgres)
	make("two", dns)
	make("three", postgres+","+dns)
	for words, want := range map[string][]string{
		"5432": {"one", "three"}, "UDP 53-54": {"two", "three"}, "to {app=dns}": {"two", "three"}, "tcp 53-54": {}, "allow": {"one", "two", "three"}, "from 10.0.0.0/8 5432": {"one", "three"},
	} {
		got := []string{}
		page := into[resource.Page[resource.Policy]](t, p.do("GET", policies+"?rule="+url.QueryEscape(words), ""))
		for _, x := range page.Items {
			got = append(got, x.Slug)
			require.NotEmpty(t, x.Head.Rules, words)
		}
		require.ElementsMatch(t, want, got, words)
	}
	first := into[resource.Page[resource.Policy]](t, p.do("GET", policies+"?rule=5432&limit=1", ""))
	require.Len(t, first.Items, 1)
	next := into[resource.Page[resource.Policy]](t, p.do("GET", policies+"?rule=5432&limit=1&cursor="+url.QueryEscape(*first.NextCursor), ""))
	require.Len(t, next.Items, 1)
	require.NotEqual(t, first.Items[0].ID, next.Items[0].ID)
	require.Nil(t, next.NextCursor)
}
