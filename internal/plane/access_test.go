package plane

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/listener"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/authority"
	"github.com/edictdev/edict/internal/test/output"
	"github.com/edictdev/edict/policy"
)

// issue writes NAME.crt and NAME.key for a SPIFFE ID and the loopback address.
func issue(t *testing.T, ca *authority.Authority, name, spiffe string) tls.Certificate {
	t.Helper()
	c := &x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if spiffe != "" {
		u, err := url.Parse(spiffe)
		require.NoError(t, err)
		c.URIs = []*url.URL{u}
	}
	ca.Issue(name, c)
	pair, err := tls.LoadX509KeyPair(ca.File(name+".crt"), ca.File(name+".key"))
	require.NoError(t, err)
	return pair
}

// guarded is a plane with access and TLS, and the tokens of its principals.
type guarded struct {
	t      *testing.T
	at     Addresses
	ca     *authority.Authority
	trust  *tls.Config
	tokens map[string]string
	log    *output.Buffer
	data   string       // directory
	said   bytes.Buffer // answers that refuse, and pages for operators
	opt    Options
	stop   func()
	asking *nats.Conn // root's, of last; nil: it asked nothing yet
	out    *outside   // nil: the server is embedded
}

var principals = map[string]string{
	"root": "plane#admin", "n1": "node:" + ours + "/n1#agent", "n2": "node:" + ours + "/n2#agent", "reader": "plane#read",
	"author":   "project:" + ours + "#operator project:" + ours + "#manage",
	"operator": "project:" + theirs + "#operator",
	"stranger": "project:" + theirs + "#operator project:" + theirs + "#manage", "expired": "plane#admin",
}

const (
	theirs = "00000000-0000-4000-8000-00000000000f"
	ours   = "00000000-0000-4000-8000-000000000000"
)

func parseRelations(t *testing.T, texts ...string) (all []policy.Relation) {
	for _, text := range texts {
		r, err := policy.ParseRelation(text)
		require.NoError(t, err)
		all = append(all, r)
	}
	return all
}

func startGuarded(t *testing.T, external bool, set ...func(*Options)) *guarded {
	g := &guarded{t: t, ca: authority.New(t, t.TempDir()), tokens: map[string]string{"nobody": "edt_nobody", "none": "", "named": "spiffe\x00spiffe://edict.test/root"}, log: new(output.Buffer), data: t.TempDir()}
	issue(t, g.ca, "plane", "")
	pool, err := access.ReadCA(g.ca.File("ca.crt"))
	require.NoError(t, err)
	// Hundreds of connections are made: their keys are agreed on in the way that costs least.
	g.trust = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13, CurvePreferences: []tls.CurveID{tls.X25519}}
	file := access.File{}
	for name, relations := range principals {
		e := &access.Entry{Principal: policy.Principal{Kind: policy.Service}}
		if strings.HasPrefix(name, "n") {
			e.Principal.Kind = policy.Agent
		}
		var expires time.Time
		if name == "expired" {
			expires = time.Now().Add(-time.Second)
		}
		text, kept := access.NewToken(uuid.New(), expires)
		g.tokens[name], e.Principal.Tokens = text, []policy.Token{kept}
		e.Principal.SPIFFE = []string{"spiffe://edict.test/" + name}
		e.Relations = parseRelations(t, strings.Fields(relations)...)
		file[policy.PrincipalID(name)] = e
	}
	path := filepath.Join(t.TempDir(), "access.json")
	require.NoError(t, file.Write(path))
	opt := Options{
		Data: g.data, NATSListen: "127.0.0.1:0", Relaxed: true, Log: slog.New(slog.NewTextHandler(g.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Access: listener.Options{File: path, TLS: access.TLSFiles{Cert: g.ca.File("plane.crt"), Key: g.ca.File("plane.key"), ClientCA: g.ca.File("ca.crt")}},
	}
	for _, f := range set {
		f(&opt)
	}
	if external {
		g.out = startOutside(t, g.ca)
		opt.NATS, opt.NATSCreds, opt.NATSCA = g.out.server.ClientURL(), g.out.file("worker.creds"), g.ca.File("ca.crt")
		opt.SigningKey = filepath.Join(t.TempDir(), "plane.pem")
		_, err := artifact.LoadOrCreateSigner(opt.SigningKey)
		require.NoError(t, err)
	}
	g.opt = opt
	g.at, g.stop = start(t, opt)
	return g
}

// again stops the plane and starts it on what it left.
func (g *guarded) again(t *testing.T) {
	g.stop()
	g.at, g.stop = start(t, g.opt)
}

func TestOnlyTheRightCredentialsOpenADoor(t *testing.T) {
	for name, external := range map[string]bool{"embedded server": false, "server of another": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tryDoors(t, startGuarded(t, external))
		})
	}
}

// tryDoors makes all attempts on a plane, and stops it.
func tryDoors(t *testing.T, g *guarded) {
	root := who{g, "root"}
	for _, id := range []string{"n1", "n2"} {
		require.NoError(t, root.http("PUT", "/v1/projects/"+ours+"/nodes/"+id, `{"labels":{"node":"`+id+`"}}`))
	}
	for _, step := range [][2]string{
		{"$JS.API.STREAM.CREATE.SCRATCH", `{"name":"SCRATCH","subjects":["scratch"],"allow_direct":true}`},
		{"$JS.API.CONSUMER.DURABLE.CREATE.SCRATCH.all", `{"stream_name":"SCRATCH","config":{"name":"all","durable_name":"all","ack_policy":"none"}}`},
		{"scratch", "{}"},
		{"$JS.API.STREAM.CREATE.EDICT_NODE_EVENTS", `{"name":"EDICT_NODE_EVENTS","subjects":["edict.node.>"],"max_msgs_per_subject":1,"allow_direct":true}`},
	} {
		require.NoError(t, ask(step[0], step[1])(root), step[0])
	}
	told := g.tell(t, "everybody", "node")
	for _, id := range []string{"n1", "n2"} { // both are stored: later ones would count as written
		require.Eventually(t, func() bool {
			return ask("$JS.API.DIRECT.GET.EDICT_NODE_EVENTS.edict.node."+id+"."+told, "")(root) == nil
		}, 20*time.Second, 5*time.Millisecond)
	}
	for _, a := range attempts(told) {
		t.Run(a.name, func(t *testing.T) {
			before := g.written()
			err := a.do(who{g, a.wrong})
			require.Error(t, err, "%s must not", a.wrong)
			g.said.WriteString(err.Error())
			require.Equal(t, before, g.written(), "nothing is written")
			require.NoError(t, a.do(who{g, a.right}), "%s may", a.right)
		})
	}
	t.Run("have the plane answer elsewhere", g.replyElsewhere)
	t.Run("take from the log", g.keepsLog)
	t.Run("listen in too many places", func(t *testing.T) {
		err := who{g, "n1"}.on(func(nc *nats.Conn) (err error) {
			heard := make(chan *nats.Msg)
			for n := 0; n <= streams.MaxSubscriptions && err == nil; n++ {
				_, err = nc.ChanSubscribe(fmt.Sprintf("edict.node.n1.p%d", n), heard)
			}
			return err
		})
		require.ErrorIs(t, err, nats.ErrMaxSubscriptionsExceeded)
	})
	t.Run("connect in the clear", func(t *testing.T) {
		_, err := nats.Connect(strings.Replace(g.at.NATS, "tls://", "nats://", 1), who{g, "root"}.shown(), nats.NoReconnect())
		require.Error(t, err, "the certificate's authority is not known to who asks for no TLS")
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+g.at.HTTP+"/livez", nil)
		require.NoError(t, err)
		res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, 400, res.StatusCode)
	})
	t.Run("come with a certificate", g.byCertificate)
	if g.out == nil {
		replaced := g.registers(t)
		t.Run("be revoked", g.revoked)
		replaced(t)
	}
	t.Run("have answers sent to another", g.misdirected)
	t.Run("go on with new credentials", g.rotated)
	if g.out == nil {
		t.Run("guess without end", g.guesses)
	}
	for _, page := range []string{"/metrics", "/v1/status", "/v1/audit", "/v1/rejected", "/v1/access/principals?limit=200"} {
		text, err := root.body("GET", page, "")
		require.NoError(t, err, page)
		g.said.Write(text)
	}
	g.stop()
	g.keepsSecrets(t)
}

// keepsSecrets looks for every credential that was shown in what the plane
// logged, answered and stored: its events, and the streams they are in.
func (g *guarded) keepsSecrets(t *testing.T) {
	texts := map[string][]byte{"its log": []byte(g.log.String()), "answers": g.said.Bytes()}
	require.NoError(t, filepath.WalkDir(g.data, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			texts[path], err = os.ReadFile(path)
		}
		return err
	}))
	require.Greater(t, len(texts), 10, "the plane stored something")
	for name, token := range g.tokens {
		for where, text := range texts {
			if token != "" && bytes.Contains(text, []byte(token)) {
				t.Errorf("the token of %s is in %s", name, where)
			}
		}
	}
}

// tell makes a policy for the nodes of a selector.
func (g *guarded) tell(t *testing.T, slug, selector string) (id string) {
	body := fmt.Sprintf(`{"slug":%q,"selector":{"source":%q,"destination":%q},"rules":[{"action":"allow","protocol":"any","source_cidr":"10.0.0.0/8","destination_cidr":"10.0.0.0/8"}]}`,
		slug, selector, selector)
	text, err := who{g, "author"}.body("POST", "/v1/projects/"+ours+"/policies", body)
	require.NoError(t, err)
	var made struct{ ID string }
	require.NoError(t, json.Unmarshal(text, &made))
	return made.ID
}

// written is how far the streams are that nobody else may write to.
func (g *guarded) written() string {
	return g.state("EDICT_LOG") + g.state("EDICT_REPORTS") + g.state("EDICT_NODE_EVENTS")
}

// state is a stream's last sequence.
func (g *guarded) state(stream string) string {
	return fmt.Sprintf("%s %d ", stream, g.last(stream))
}

func (g *guarded) head() uint64 { return g.last("EDICT_LOG") }

func (g *guarded) last(stream string) uint64 {
	var answer struct {
		State struct {
			Last uint64 `json:"last_seq"`
		}
	}
	if g.asking == nil || g.asking.IsClosed() {
		nc, err := who{g, "root"}.nats()
		require.NoError(g.t, err)
		g.asking = nc
	}
	m, err := g.asking.Request("$JS.API.STREAM.INFO."+stream, nil, 10*time.Second)
	require.NoError(g.t, err)
	require.NoError(g.t, json.Unmarshal(m.Data, &answer))
	return answer.State.Last
}

// replyElsewhere names subjects that nobody may publish to as the place for the
// plane's own answers.
func (g *guarded) replyElsewhere(t *testing.T) {
	head, before := g.head(), g.written()
	for _, to := range []string{"edict.log." + ours + ".node.n1", "edict.report.node.n2", "edict.log.access.n1", "edict.node.n2.x", "$JS.API.STREAM.PURGE.EDICT_REPORTS", "edict.replay.node.n2"} {
		require.NoError(t, who{g, "n1"}.on(func(nc *nats.Conn) error {
			if err := nc.PublishRequest("edict.replay.node.n1", to, []byte(`{"after":"0"}`)); err != nil {
				return err
			}
			_, err := nc.Request("edict.replay.node.n1", []byte(`{"after":"0"}`), 10*time.Second)
			return err
		}), to)
	}
	require.Equal(t, before, g.written())
	// A producer's acknowledgement is no event either: one is stored, not two.
	require.NoError(t, who{g, "author"}.on(func(nc *nats.Conn) error {
		own := "edict.log." + ours + ".node.n5"
		if err := nc.PublishRequest(own, "edict.log."+theirs+".node.n5", []byte("{}")); err != nil {
			return err
		}
		_, err := nc.Request(own, []byte("{}"), 10*time.Second)
		return err
	}))
	// Nor is a verdict, and whoever serves a subject is not asked by way of one.
	require.NoError(t, who{g, "author"}.on(func(nc *nats.Conn) error {
		own := "edict.verdict." + ours + ".1"
		for _, to := range []string{"edict.log." + theirs + ".node.n5", "edict.log." + ours + ".node.n5", "edict.log.access.author", "edict.verdict." + theirs + ".1", "edict.node.n2.x"} {
			if err := nc.PublishRequest(own, to, nil); err != nil {
				return err
			}
			if _, err := nc.Request(own, nil, 10*time.Second); err != nil {
				return err
			}
		}
		return nil
	}))
	require.Equal(t, head+2, g.head())
}

// byCertificate comes without a token.
func (g *guarded) byCertificate(t *testing.T) {
	get := func(pair tls.Certificate, path string) int {
		config := g.trust.Clone()
		config.Certificates = []tls.Certificate{pair}
		transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
		r, err := http.NewRequestWithContext(t.Context(), "GET", "https://"+g.at.HTTP+path, nil)
		require.NoError(t, err)
		res, err := transport.RoundTrip(r)
		if err != nil {
			return 0
		}
		require.NoError(t, res.Body.Close())
		return res.StatusCode
	}
	n1 := issue(t, g.ca, "n1", "spiffe://edict.test/n1")
	require.Equal(t, 200, get(n1, "/v1/nodes/n1/state"))
	require.Equal(t, 403, get(n1, "/v1/nodes/n2/state"))
	require.Equal(t, 401, get(issue(t, g.ca, "x", "spiffe://edict.test/x"), "/v1/nodes/n1/state"))
	require.Equal(t, 401, get(issue(t, g.ca, "y", "spiffe://other.test/n1"), "/v1/nodes/n1/state"), "another trust domain")
	require.Equal(t, 0, get(issue(t, authority.New(t, t.TempDir()), "z", "spiffe://edict.test/n1"), "/v1/nodes/n1/state"), "another authority")

	if g.out != nil {
		return // its server asks for credentials alone
	}
	config := g.trust.Clone()
	config.Certificates = []tls.Certificate{n1}
	nc, err := nats.Connect(g.at.NATS, nats.Secure(config), nats.CustomInboxPrefix("_INBOX.n1"), nats.NoReconnect())
	require.NoError(t, err)
	defer nc.Close()
	_, err = nc.Request("edict.replay.node.n1", []byte(`{"after":"0"}`), 10*time.Second)
	require.NoError(t, err)
}

// guesses tokens over NATS until their address is not looked after any more, over
// HTTP too; what is good stays good.
func (g *guarded) guesses(t *testing.T) {
	refused := func() bool {
		err := who{g, "nobody"}.http("GET", "/v1/access/self", "")
		require.Error(t, err)
		return strings.Contains(err.Error(), "too_many_failures")
	}
	const most = 1000
	for n := 0; ; n++ {
		require.Less(t, n, most, "wrong tokens over NATS are not counted")
		_, err := who{g, "nobody"}.nats()
		require.ErrorIs(t, err, nats.ErrAuthorization)
		if n%10 == 0 && refused() {
			break
		}
	}
	_, err := who{g, "n1"}.nats()
	require.NoError(t, err)
	require.NoError(t, who{g, "root"}.http("GET", "/v1/access/self", ""))
	page, err := who{g, "root"}.body("GET", "/metrics", "")
	require.NoError(t, err)
	require.Regexp(t, `edict_credentials_refused_total\{reason="too_many"\} [1-9]`, string(page))
}

// revoked loses what it has while it is connected: its stream and its NATS
// connection end, and it does not come back.
func (g *guarded) revoked(t *testing.T) {
	root := who{g, "root"}
	text, kept := access.NewToken(uuid.New(), time.Time{})
	g.tokens["n3"] = text
	doc := policy.AppendPrincipal(nil, policy.Principal{Kind: policy.Agent, Tokens: []policy.Token{kept}})
	require.NoError(t, root.http("PUT", "/v1/projects/"+ours+"/nodes/n3", `{}`))
	require.NoError(t, root.http("PUT", "/v1/access/principals/n3", string(doc)))
	require.NoError(t, root.http("POST", "/v1/access/principals/n3/relations", `{"relation":"node:`+ours+`/n3#agent"}`))
	w := who{g, "n3"}
	gone := make(chan struct{})
	_, err := w.nats(nats.ClosedHandler(func(*nats.Conn) { close(gone) }))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", "https://"+g.at.HTTP+"/v1/nodes/n3/events", nil)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+text)
	res, err := (&http.Transport{TLSClientConfig: g.trust, DisableKeepAlives: true}).RoundTrip(r)
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, 200, res.StatusCode)

	require.NoError(t, root.http("DELETE", "/v1/access/principals/n3", ""))
	_, err = io.Copy(io.Discard, res.Body)
	require.NoError(t, err, "the stream ended in order")
	select {
	case <-gone:
	case <-ctx.Done():
		t.Fatal("the NATS connection stands")
	}
	require.Error(t, w.http("GET", "/v1/nodes/n3/state", ""))
	_, err = w.nats()
	require.Error(t, err)
}
