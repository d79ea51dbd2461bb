package api_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// What tests register: a node, its bootstrap token and an agent's key.
const (
	awaited      = "0190a1b2-0000-7000-8000-00000000000a"
	awaitedToken = "psb_edict_a2_node_abcdefghijklmnopqrstuvwxyz"
	agentKey     = "CQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
)

// bootstrap is how a token is written into a principal.
type bootstrap struct {
	token, project, resource string
	expires                  time.Time
	state                    policy.BootstrapState
}

func (b bootstrap) kept() policy.Bootstrap {
	return policy.Bootstrap{
		ID: uuid.NewSHA1(uuid.Nil, []byte(b.token)), Hash: sha256.Sum256([]byte(b.token)), Project: uuid.MustParse(b.project),
		Resource: b.resource, Expires: b.expires, State: b.state,
	}
}

// awaits makes a node and a principal with bootstrap tokens for it; without any,
// with awaitedToken.
func (p *plane) awaits(node string, header ...string) {
	p.t.Helper()
	p.want(http.StatusCreated, "", p.do("PUT", nodes+"/"+node, `{"labels":{"role":"web"}}`, header...))
	p.bootstraps(node, header, bootstrap{token: awaitedToken, project: project, expires: epoch.Add(time.Hour)})
}

func (p *plane) bootstraps(node string, header []string, tokens ...bootstrap) {
	p.t.Helper()
	doc := policy.Principal{Kind: policy.Agent}
	for _, b := range tokens {
		doc.Bootstrap = append(doc.Bootstrap, b.kept())
	}
	p.want(http.StatusOK, "", p.do("PUT", "/v1/access/principals/"+node, string(policy.AppendPrincipal(nil, doc)), header...))
}

// asks is a request of a current agent, with some members changed; "" takes one
// away.
func asks(change ...string) string {
	members := map[string]string{"project_id": project, "resource_handle": "web-1", "bootstrap_token": awaitedToken, "nonce": "n-1", "public_key": agentKey}
	for i := 0; i < len(change); i += 2 {
		members[change[i]] = change[i+1]
	}
	var b strings.Builder
	for k, v := range members {
		if v != "" {
			fmt.Fprintf(&b, `,%q:%q`, k, v)
		}
	}
	return "{" + b.String()[1:] + "}"
}

func askedByOlder(token, key string) string {
	return fmt.Sprintf(`{"token":%q,"public_key":%q,"hostname":"web-1","metadata":{"zone":"a"},"capabilities":{"wireguard":true,"builtin_actions":[]}}`, token, key)
}

func TestBothDialectsRegister(t *testing.T) {
	for name, row := range map[string]struct {
		body    string
		header  []string
		dialect string
	}{
		"current":                          {asks(), nil, "current"},
		"current, by the API's field name": {asks("resource_handle", "", "resource_id", "web-1"), nil, "current"},
		"current, which names its node":    {asks("requested_resource_id", awaited), nil, "current"},
		"older":                            {askedByOlder(awaitedToken, agentKey), []string{bearer(awaitedToken)}, "legacy"},
	} {
		t.Run(name, func(t *testing.T) {
			p, tokens := guarded(t, map[string][]string{"admin": roles["admin"]})
			admin := bearer(tokens["admin"])
			p.awaits(awaited, admin)
			p.put2(t, "n1", admin)
			a := p.do("POST", "/v1/register", row.body, append(row.header, "X-Edict-Principal: root")...)
			p.want(http.StatusCreated, "", a)
			got := into[resource.Registered](t, a)
			require.Equal(t, awaited, got.NodeID)
			signer, _ := p.deps.Signer()
			require.Equal(t, base64.StdEncoding.EncodeToString(signer.PublicKey()), got.SigningPublicKey)
			require.Equal(t, signer.KeyID(), got.SigningKeyID)
			require.NotEmpty(t, got.MeshIP, "an agent that was told none does not start again")
			require.Contains(t, string(a.body), `"peers":[]`)

			// The bearer is the id's 16 bytes and the secret's 32.
			secret, err := base64.StdEncoding.DecodeString(got.NSK)
			require.NoError(t, err)
			id := uuid.MustParse(awaited)
			require.Equal(t, "nsk_plexd_"+base64.RawURLEncoding.EncodeToString(append(id[:], secret...)), got.NodeSecretKey)
			state := func(node, token string) answer { return p.do("GET", "/v1/nodes/"+node+"/state", "", bearer(token)) }
			p.want(200, "", state(awaited, got.NodeSecretKey))
			p.want(401, "unauthenticated", state(awaited, got.NSK))
			p.want(401, "unauthenticated", state(awaited, awaitedToken))
			p.want(403, "forbidden", state("n1", got.NodeSecretKey))

			who := into[resource.Principal](t, p.do("GET", "/v1/access/principals/"+awaited, "", admin))
			require.Equal(t, row.dialect, who.Registration.Dialect)
			require.Equal(t, "consumed", who.Bootstrap[0].State)
			require.Equal(t, "node:"+project+"/"+awaited+"#agent", who.Relations[0].Relation)
			shown := p.do("GET", "/v1/audit", "", admin)
			require.Contains(t, string(shown.body), `"principal":"`+awaited+`"`)
			for _, text := range []string{got.NSK, got.NodeSecretKey, awaitedToken} {
				for _, m := range p.log.msgs {
					require.NotContains(t, string(m.Body), text, "the log holds hashes")
				}
			}
		})
	}
}

func (p *plane) put2(t *testing.T, node, admin string) {
	t.Helper()
	p.want(http.StatusCreated, "", p.do("PUT", nodes+"/"+node, `{}`, admin))
}

// Attempts to register that must fail, each with its status and code, and none
// with anything in the log.
func TestRegistrationsThatAreRefused(t *testing.T) {
	const theirs = "0190a1b2-0000-7000-8000-00000000000b"
	token := func(name string) string {
		return "psb_edict_a2_node_" + strings.Repeat(name[:1], 26)
	}
	const bridge = "psb_edict_a2_bridge_abcdefghijklmnopqrst"
	p := newPlane(t)
	p.awaits(awaited)
	p.put("0190a1b2-0000-7000-8000-00000000000c", `{}`)
	soon := epoch.Add(time.Hour)
	p.bootstraps(awaited, nil,
		bootstrap{awaitedToken, project, "", soon, ""},
		bootstrap{token("used"), project, "", soon, ""},
		bootstrap{token("bound"), project, "web-1", soon, ""},
		bootstrap{token("expired"), project, "", epoch.Add(-time.Second), ""},
		bootstrap{token("revoked"), project, "", soon, policy.BootstrapRevoked},
		bootstrap{bridge, project, "", soon, ""},
	)
	p.bootstraps(theirs, nil, bootstrap{token("gone"), project, "", soon, ""})
	p.bootstraps("web-1", nil, bootstrap{token("label"), project, "", soon, ""})
	p.want(201, "", p.do("POST", "/v1/register", asks("bootstrap_token", token("used"), "nonce", "taken")))

	for name, row := range map[string]struct {
		body   string
		status int
		code   string
	}{
		"replayed with another nonce":       {asks("bootstrap_token", token("used"), "nonce", "other"), 403, "token_consumed"},
		"replayed with another key":         {asks("bootstrap_token", token("used"), "nonce", "taken", "public_key", strings.Replace(agentKey, "CQ", "Cg", 1)), 403, "token_consumed"},
		"replayed in the other dialect":     {askedByOlder(token("used"), agentKey), 403, "token_consumed"},
		"expired":                           {asks("bootstrap_token", token("expired")), 403, "token_expired"},
		"expired, older":                    {askedByOlder(token("expired"), agentKey), 403, "token_expired"},
		"revoked":                           {asks("bootstrap_token", token("revoked")), 403, "token_revoked"},
		"of another project":                {asks("project_id", other), 403, "project_mismatch"},
		"of a bridge":                       {asks("bootstrap_token", bridge), 403, "kind_mismatch"},
		"for another resource":              {asks("bootstrap_token", token("bound"), "resource_handle", "web-2"), 404, "resource_not_found"},
		"for no resource":                   {asks("bootstrap_token", token("bound"), "resource_handle", ""), 404, "resource_not_found"},
		"for another node":                  {asks("requested_resource_id", theirs), 404, "resource_not_found"},
		"of a node that is gone":            {asks("bootstrap_token", token("gone")), 404, "resource_not_found"},
		"of a node whose id is no UUID":     {asks("bootstrap_token", token("label")), 403, "kind_mismatch"},
		"guessed":                           {asks("bootstrap_token", token("zzz")), 401, "unauthenticated"},
		"of another form":                   {asks("bootstrap_token", "root"), 401, "unauthenticated"},
		"with a bearer token":               {asks("bootstrap_token", "edt_"+strings.Repeat("a", 52)), 401, "unauthenticated"},
		"without a token":                   {asks("bootstrap_token", ""), 422, "required"},
		"without a nonce":                   {asks("nonce", ""), 422, "required"},
		"without a project":                 {asks("project_id", ""), 422, "required"},
		"with a project that is no id":      {asks("project_id", "shop"), 422, "invalid_uuid"},
		"with a nonce without end":          {asks("nonce", strings.Repeat("n", 257)), 422, "text_too_long"},
		"with a nonce that was used":        {asks("nonce", "taken"), 403, "nonce_collision"},
		"without a key":                     {asks("public_key", ""), 422, "required"},
		"with a key of zeros":               {asks("public_key", base64.StdEncoding.EncodeToString(make([]byte, 32))), 400, "public_key_invalid"},
		"with a short key":                  {asks("public_key", "CQ=="), 400, "public_key_invalid"},
		"with a key in hex":                 {asks("public_key", hex.EncodeToString(make([]byte, 32))), 400, "public_key_invalid"},
		"with a key of base64url":           {asks("public_key", "__AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="), 400, "public_key_invalid"},
		"with a key of two lines":           {asks("public_key", agentKey+"\n"), 400, "public_key_invalid"},
		"by an agent of a plane of another": {`{"token":"","public_key":""}`, 422, "required"},
	} {
		t.Run(name, func(t *testing.T) {
			written := p.log.Len()
			a := serve(t, p.Handler, "POST", "/v1/register", row.body)
			require.Equal(t, row.status, a.StatusCode, "%s", a.body)
			require.Equal(t, row.code, a.problem(t).Code)
			if row.code != "nonce_collision" { // which the fold alone can tell
				require.Equal(t, written, p.log.Len(), "nothing is written")
			}
			require.Equal(t, row.status == 401, a.Header.Get("WWW-Authenticate") != "")
		})
	}
	p.want(201, "", p.do("POST", "/v1/register", asks("nonce", "good")))
}

// A lost answer is asked for again, and is the same; nobody else gets it.
func TestALostAnswerIsGivenAgain(t *testing.T) {
	p := newPlane(t)
	p.awaits(awaited)
	ask := func(body string) answer { return p.do("POST", "/v1/register", body) }
	first := ask(asks())
	p.want(201, "", first)
	written := p.log.Len()
	again := ask(asks())
	p.want(201, "", again)
	require.Equal(t, string(first.body), string(again.body))
	require.Equal(t, written, p.log.Len())
	p.log.Forget()
	p.want(201, "", ask(asks()))

	// A later registration ends the one before.
	p.want(200, "", p.do("PUT", "/v1/access/principals/"+awaited, string(policy.AppendPrincipal(nil, func() policy.Principal {
		who := p.who(awaited)
		who.Bootstrap = append(who.Bootstrap, bootstrap{token: "psb_edict_a2_node_" + strings.Repeat("b", 26), project: project, expires: epoch.Add(time.Hour)}.kept())
		who.Bootstrap[0].State = ""
		return who
	}()))))
	p.want(201, "", ask(asks()))
	next := ask(asks("bootstrap_token", "psb_edict_a2_node_"+strings.Repeat("b", 26), "nonce", "n-2"))
	p.want(201, "", next)
	p.want(403, "token_consumed", ask(asks()))
	require.Len(t, p.who(awaited).Tokens, 1)
}

// Whoever finds the request later, in a capture or on a disk, has nothing.
func TestAnAnswerIsGivenAgainUntilTheTokenExpires(t *testing.T) {
	now := epoch
	p := newPlane(t, func(d *api.Deps) { d.Clock = func() time.Time { return now } })
	p.awaits(awaited)
	p.want(201, "", p.do("POST", "/v1/register", asks()))
	now = epoch.Add(time.Hour - 1)
	p.want(201, "", p.do("POST", "/v1/register", asks()))
	now = epoch.Add(time.Hour)
	p.want(403, "token_consumed", p.do("POST", "/v1/register", asks()))
}

// The plane's key may be replaced before a lost answer is asked for again: the
// node gets its secret, and the key that signs today.
func TestALostAnswerIsGivenAgainAfterARotation(t *testing.T) {
	first, _ := planeKey(t)()
	second, _ := planeKey(t)()
	third, _ := planeKey(t)()
	current, previous := first, api.Signer(nil)
	p := newPlane(t, func(d *api.Deps) { d.Signer = func() (c, b api.Signer) { return current, previous } })
	p.awaits(awaited)
	ask := func(body string) answer { return p.do("POST", "/v1/register", body) }
	was := into[resource.Registered](t, ask(asks()))
	written := p.log.Len()

	current, previous = second, first
	a := ask(asks())
	p.want(201, "", a)
	is := into[resource.Registered](t, a)
	require.Equal(t, was.NodeSecretKey, is.NodeSecretKey)
	require.Equal(t, was.NSK, is.NSK)
	require.Equal(t, second.KeyID(), is.SigningKeyID)
	require.Equal(t, base64.StdEncoding.EncodeToString(second.PublicKey()), is.SigningPublicKey)
	p.want(403, "token_consumed", ask(asks("nonce", "other")))
	require.Equal(t, written, p.log.Len())

	current, previous = third, second
	p.want(403, "token_consumed", ask(asks()))
}

func (p *plane) who(id string) (d policy.Principal) {
	p.t.Helper()
	who := into[resource.Principal](p.t, p.do("GET", "/v1/access/principals/"+id, ""))
	p.fold.Read(func(v *projector.View) {
		found, _ := v.Principal(policy.PrincipalID(who.ID))
		d = *found.Document
	})
	d.Bootstrap = append([]policy.Bootstrap(nil), d.Bootstrap...)
	return d
}

// Two workers that do not know of each other yet: the log says who was first.
func TestATokenIsUsedOnceByManyWorkers(t *testing.T) {
	p := newPlane(t)
	p.awaits(awaited)
	p.log.Hold()
	answers := make(chan answer, 2)
	for _, nonce := range []string{"a", "b"} {
		go func() { answers <- p.do("POST", "/v1/register", asks("nonce", nonce)) }()
	}
	require.Eventually(t, func() bool { return p.log.Len() == 4 }, waitFor, tick)
	p.log.Release()
	var status []int
	for range 2 {
		status = append(status, (<-answers).StatusCode)
	}
	require.ElementsMatch(t, []int{201, 403}, status)
}

// The log's clock ends a token, not the worker's.
func TestATokenExpiresByTheLogsClock(t *testing.T) {
	p := newPlane(t)
	p.put(awaited, `{}`)
	// Of the third second of the log, and the worker's clock stands before it.
	p.bootstraps(awaited, nil, bootstrap{awaitedToken, project, "", epoch.Add(3 * time.Second), ""})
	p.want(403, "token_expired", p.do("POST", "/v1/register", asks()))
	require.Equal(t, 3, p.log.Len())
}

func TestWhoFailsTooOftenIsNotLookedAfter(t *testing.T) {
	p, tokens := guarded(t, map[string][]string{"admin": roles["admin"]}, func(d *api.Deps) { d.Failures = access.NewFailures(1) })
	p.awaits(awaited, bearer(tokens["admin"]))
	wrong := func() answer { return p.do("GET", "/v1/access/self", "", bearer("edt_nobody")) }
	guess := func() answer {
		return p.do("POST", "/v1/register", asks("bootstrap_token", "psb_edict_a2_node_"+strings.Repeat("z", 26)))
	}
	untilBlocked := func(try func() answer) answer {
		for range 1000 {
			if a := try(); a.StatusCode != 401 {
				return a
			}
		}
		t.Fatal("nobody was told to wait")
		return answer{}
	}
	for _, try := range []func() answer{wrong, guess} {
		a := untilBlocked(try)
		p.want(429, "too_many_failures", a)
		require.NotEmpty(t, a.Header.Get("Retry-After"))
	}
	p.want(200, "", p.do("GET", "/v1/access/self", "", bearer(tokens["admin"])))
	p.want(201, "", p.do("POST", "/v1/register", asks()))
}

// What the plane cannot do now says nothing against the token, or the address.
func TestARegistrationThatThePlaneCannotTakeIsNoFailure(t *testing.T) {
	refused := 0
	p := newPlane(t, func(d *api.Deps) {
		d.Failures = access.NewFailures(1)
		d.Failures.OnRefusal = func(string) { refused++ }
	})
	p.awaits(awaited)
	p.log.Fail(errDown)
	for range 20 {
		p.want(http.StatusServiceUnavailable, "log_unavailable", p.do("POST", "/v1/register", asks()))
	}
	require.Zero(t, refused)
	p.log.Fail(nil)
	p.want(http.StatusUnauthorized, "unauthenticated", p.do("POST", "/v1/register", asks("bootstrap_token", awaitedToken+"b")))
	require.Equal(t, 1, refused)
	p.want(http.StatusCreated, "", p.do("POST", "/v1/register", asks()))
}
