package api_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/test/gen"
)

// An agent that leaves takes its credentials along: nobody who finds them later has
// anything. Its node stays, and registers again with another bootstrap token.
func TestAnAgentThatLeavesTakesItsCredentialsAlong(t *testing.T) {
	p, tokens := guarded(t, map[string][]string{"admin": roles["admin"], "other": {"plane#read"}})
	admin := bearer(tokens["admin"])
	p.awaits(awaited, admin)
	path := "/v1/nodes/" + awaited
	a := p.do("POST", "/v1/register", asks())
	p.want(http.StatusCreated, "", a)
	agent := bearer(into[resource.Registered](t, a).NodeSecretKey)
	p.want(http.StatusOK, "", p.do("GET", path+"/state", "", agent))
	p.want(http.StatusNotFound, "node_not_found", p.do("POST", path+"/deregister", "", bearer(tokens["other"])))

	p.want(http.StatusNoContent, "", p.do("POST", path+"/deregister", "", agent))
	p.want(http.StatusUnauthorized, "unauthenticated", p.do("GET", path+"/state", "", agent))
	p.want(http.StatusUnauthorized, "unauthenticated", p.do("POST", path+"/deregister", "", agent))
	p.want(http.StatusForbidden, "token_consumed", p.do("POST", "/v1/register", asks()))
	who := into[resource.Principal](t, p.do("GET", "/v1/access/principals/"+awaited, "", admin))
	require.Nil(t, who.Registration)
	require.Empty(t, who.Tokens)
	require.Len(t, who.Bootstrap, 1)
	p.want(http.StatusOK, "", p.do("GET", nodes+"/"+awaited, "", admin))
}

// Without access the second request is answered, too, and writes nothing.
func TestDeregisteringTwiceIsDeregisteringOnce(t *testing.T) {
	gen.Unraced()
	p := newPlane(t)
	p.awaits(awaited)
	p.want(http.StatusCreated, "", p.do("POST", "/v1/register", asks()))
	before := p.log.Len()
	for range 3 {
		p.want(http.StatusNoContent, "", p.do("POST", "/v1/nodes/"+awaited+"/deregister", `{}`))
	}
	require.Equal(t, before+1, p.log.Len())
	p.put("n1", `{}`)
	p.want(http.StatusNoContent, "", p.do("POST", "/v1/nodes/n1/deregister", ""))
	p.want(http.StatusNotFound, "node_not_found", p.do("POST", "/v1/nodes/ghost/deregister", ""))
	require.Equal(t, before+2, p.log.Len())
}
