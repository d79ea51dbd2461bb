package plane

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
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

	"github.com/edictdev/edict/access"
	"github.com/edictdev/edict/policy"
)

// authority signs certificates for tests.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	next int64
}

func newAuthority(t *testing.T) *authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	a := &authority{t: t, dir: t.TempDir(), key: key, next: 1}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.write("ca", a.cert, key)
	return a
}

// issue writes NAME.crt and NAME.key for a SPIFFE ID and the loopback address.
func (a *authority) issue(name, spiffe string) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(a.t, err)
	a.next++
	c := &x509.Certificate{
		SerialNumber: big.NewInt(a.next), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if spiffe != "" {
		u, err := url.Parse(spiffe)
		require.NoError(a.t, err)
		c.URIs = []*url.URL{u}
	}
	a.write(name, c, key)
	pair, err := tls.LoadX509KeyPair(a.file(name+".crt"), a.file(name+".key"))
	require.NoError(a.t, err)
	return pair
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

func (a *authority) write(name string, c *x509.Certificate, key *ecdsa.PrivateKey) {
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &key.PublicKey, a.key)
	require.NoError(a.t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(a.t, err)
	for ext, block := range map[string]*pem.Block{".crt": {Type: "CERTIFICATE", Bytes: der}, ".key": {Type: "PRIVATE KEY", Bytes: secret}} {
		require.NoError(a.t, os.WriteFile(a.file(name+ext), pem.EncodeToMemory(block), 0o600))
	}
}

// guarded is a plane with access and TLS, and the tokens of its principals.
type guarded struct {
	t      *testing.T
	at     Addresses
	ca     *authority
	trust  *tls.Config
	tokens map[string]string
	log    *bytes.Buffer
	stop   func()
}

const (
	theirs = "00000000-0000-4000-8000-00000000000f"
	ours   = "00000000-0000-4000-8000-000000000000"
)

func startGuarded(t *testing.T) *guarded {
	g := &guarded{t: t, ca: newAuthority(t), tokens: map[string]string{"nobody": "edt_nobody", "none": ""}, log: &bytes.Buffer{}}
	g.ca.issue("plane", "")
	pool, err := access.ReadCA(g.ca.file("ca.crt"))
	require.NoError(t, err)
	g.trust = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}
	file := access.File{}
	for name, relations := range map[string]string{
		"root": "plane#admin", "n1": "node:n1#agent", "n2": "node:n2#agent", "reader": "plane#read",
		"author":   "project:" + ours + "#operator project:" + ours + "#manage",
		"operator": "project:" + theirs + "#operator",
		"stranger": "project:" + theirs + "#operator project:" + theirs + "#manage", "expired": "plane#admin",
	} {
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
		for r := range strings.FieldsSeq(relations) {
			rel, err := policy.ParseRelation(r)
			require.NoError(t, err)
			e.Relations = append(e.Relations, rel)
		}
		file[policy.PrincipalID(name)] = e
	}
	path := filepath.Join(t.TempDir(), "access.json")
	require.NoError(t, file.Write(path))
	g.at, g.stop = start(t, Options{
		Data: t.TempDir(), NATSListen: "127.0.0.1:0", Relaxed: true, Log: slog.New(slog.NewTextHandler(g.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Access: AccessOptions{File: path, TLS: access.TLSFiles{Cert: g.ca.file("plane.crt"), Key: g.ca.file("plane.key"), ClientCA: g.ca.file("ca.crt")}},
	})
	return g
}

// who is one who tries: a connection to NATS, made when it is first needed, and
// a token for HTTP.
type who struct {
	*guarded
	name string
}

func (w who) nats(opts ...nats.Option) (*nats.Conn, error) {
	inbox := "_INBOX." + w.name
	if w.name == "none" || w.name == "nobody" {
		inbox = "_INBOX.x"
	}
	nc, err := nats.Connect(w.at.NATS, append([]nats.Option{
		nats.Secure(w.trust), nats.Token(w.tokens[w.name]), nats.CustomInboxPrefix(inbox), nats.NoReconnect(),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}, opts...)...)
	if err == nil {
		w.t.Cleanup(nc.Close)
	}
	return nc, err
}

// on runs f on a connection. The server's word on a permission comes before the
// answer to the flush.
func (w who) on(f func(nc *nats.Conn) error) error {
	nc, err := w.nats()
	if err != nil {
		return err
	}
	defer nc.Close()
	if err := f(nc); err != nil {
		return err
	}
	if err := nc.FlushTimeout(10 * time.Second); err != nil {
		return err
	}
	return nc.LastError()
}

func (w who) http(method, path, body string) error {
	r, err := http.NewRequestWithContext(w.t.Context(), method, "https://"+w.at.HTTP+path, strings.NewReader(body))
	require.NoError(w.t, err)
	r.Header.Set("Content-Type", "application/json")
	if token := w.tokens[w.name]; token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{TLSClientConfig: w.trust, DisableKeepAlives: true}
	res, err := transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode < 300 {
		return nil
	}
	text, _ := io.ReadAll(res.Body)
	return fmt.Errorf("%s: %s", res.Status, text)
}

// attempt is something that only right may do.
type attempt struct {
	name, wrong, right string
	do                 func(w who) error
}

func listen(subject string) func(who) error {
	return func(w who) error {
		return w.on(func(nc *nats.Conn) error {
			_, err := nc.SubscribeSync(subject)
			return err
		})
	}
}

func share(subject string) func(who) error {
	return func(w who) error {
		return w.on(func(nc *nats.Conn) error {
			_, err := nc.QueueSubscribeSync(subject, "edict")
			return err
		})
	}
}

func tell(subject, body string) func(who) error {
	return func(w who) error {
		return w.on(func(nc *nats.Conn) error { return nc.Publish(subject, []byte(body)) })
	}
}

func ask(subject, body string) func(who) error {
	return func(w who) error {
		return w.on(func(nc *nats.Conn) error {
			inbox := nc.NewInbox()
			answer, err := nc.SubscribeSync(inbox)
			if err != nil {
				return err
			}
			if err := nc.PublishRequest(subject, inbox, []byte(body)); err != nil {
				return err
			}
			if err := nc.FlushTimeout(10 * time.Second); err != nil || nc.LastError() != nil {
				return errors.Join(err, nc.LastError())
			}
			_, err = answer.NextMsg(10 * time.Second)
			return err
		})
	}
}

func call(method, path, body string) func(who) error {
	return func(w who) error { return w.http(method, path, body) }
}

// attempts are what a hostile node, a hostile author and a stranger try over
// NATS, HTTP and SSE, and who may.
func attempts() []attempt {
	node := func(id string) string {
		return fmt.Sprintf(`{"id":%q,"type":"node_updated","project_id":%q,"node_id":%q,"labels":{},"addresses":[]}`, uuid.New(), ours, id)
	}
	return []attempt{
		{"hear another's live messages", "n1", "n2", listen("edict.live.node.n2.>")},
		{"hear one of another's live messages", "n1", "n2", listen("edict.live.node.n2.p")},
		{"hear all live messages", "n1", "root", listen("edict.live.node.>")},
		{"hear everything live", "n1", "root", listen("edict.live.>")},
		{"hear everything", "n1", "root", listen(">")},
		{"hear any node's policy", "n1", "root", listen("edict.live.node.*.p")},
		{"hear the node stream", "n1", "root", listen("edict.node.n1.>")},
		{"hear another's inbox", "n1", "n2", listen("_INBOX.n2.>")},
		{"hear all inboxes", "n1", "root", listen("_INBOX.>")},
		{"hear the log", "n1", "root", listen("edict.log.>")},
		{"hear what was rejected", "n1", "root", listen("edict.rejected.>")},
		{"hear reports", "n1", "root", listen("edict.report.node.*")},
		{"hear requests for replays", "n1", "root", listen("edict.replay.node.*")},
		{"share in answering replays", "n1", "root", share("edict.replay.node.*")},
		{"share in another's live messages", "n1", "n2", share("edict.live.node.n2.>")},
		{"hear JetStream", "n1", "root", listen("$JS.>")},
		{"ask for another's replay", "n1", "n2", ask("edict.replay.node.n2", `{"after":0}`)},
		{"report for another", "n1", "n2", ask("edict.report.node.n2", `{"version":0,"fingerprint":""}`)},
		{"report for all", "n1", "root", tell("edict.report.node.x", "{}")},
		{"announce to itself", "n1", "root", tell("edict.live.node.n1.p", "{}")},
		{"announce to another", "n1", "root", tell("edict.live.node.n2.p", "{}")},
		{"store an announcement", "n1", "root", tell("edict.node.nx.p", "{}")},
		{"take a fence", "n1", "root", tell("edict.fence.999", "{}")},
		{"ask what JetStream holds", "n1", "root", ask("$JS.API.INFO", "")},
		{"ask for the log's state", "n1", "root", ask("$JS.API.STREAM.INFO.EDICT_LOG", "")},
		{"read a message by its number", "n1", "root", ask("$JS.API.STREAM.MSG.GET.EDICT_LOG", `{"seq":1}`)},
		{"read another's message directly", "n1", "root", ask("$JS.API.DIRECT.GET.EDICT_NODES.edict.node.n2.p", "")},
		{"make a consumer", "n1", "root", ask("$JS.API.CONSUMER.CREATE.EDICT_NODES", `{"stream_name":"EDICT_NODES","config":{"ack_policy":"none","inactive_threshold":1000000000}}`)},
		{"purge the reports", "n1", "root", ask("$JS.API.STREAM.PURGE.EDICT_REPORTS", "")},
		{"write a key", "n1", "root", tell("$KV.EDICT_META.x", "x")},
		{"append a node's facts", "n1", "author", ask("edict.log."+ours+".node.n1", node("n1"))},
		{"append to another project", "stranger", "author", ask("edict.log."+ours+".node.n3", node("n3"))},
		{"append a policy without managing it", "operator", "stranger", ask("edict.log."+theirs+".policy."+theirs, "{}")},
		{"append a relation", "author", "root", ask("edict.log.access.author", "{}")},
		{"append an admission policy", "author", "root", ask("edict.log.admission.x", "{}")},
		{"listen as a producer", "author", "root", listen("edict.log.>")},
		{"listen to a node as a producer", "author", "n1", listen("edict.live.node.n1.>")},
		{"connect with relations that say nothing of NATS", "reader", "author", tell("edict.log."+ours+".node.n4", "{}")},
		{"connect without a token", "none", "root", tell("x", "")},
		{"connect with a wrong token", "nobody", "root", tell("x", "")},
		{"connect with a token that is over", "expired", "root", tell("x", "")},
		{"pull another's state", "n1", "n2", call("GET", "/v1/nodes/n2/state", "")},
		{"read another's rulesets", "n1", "n2", call("GET", "/v1/nodes/n2/rulesets", "")},
		{"read another's table", "n1", "n2", call("GET", "/v1/nodes/n2/datapath", "")},
		{"follow another", "n1", "n2", call("GET", "/v1/nodes/n2/events", "")},
		{"report for another over HTTP", "n1", "n2", call("POST", "/v1/nodes/n2/applied", `{"version":1,"fingerprint":"T1PNoYwrqgwDVLtfmj7L5e0Sq02OEbqHPC8RFhICuUU="}`)},
		{"change its own labels", "n1", "author", call("PUT", "/v1/projects/"+ours+"/nodes/n1", `{"labels":{}}`)},
		{"make an administrator", "author", "root", call("POST", "/v1/access/principals/somebody/relations", `{"relation":"plane#admin"}`)},
		{"read the policies of others", "stranger", "author", call("GET", "/v1/projects/"+ours+"/policies", "")},
	}
}

func TestOnlyTheRightCredentialsOpenADoor(t *testing.T) {
	g := startGuarded(t)
	root := who{g, "root"}
	for _, id := range []string{"n1", "n2"} {
		require.NoError(t, root.http("PUT", "/v1/projects/"+ours+"/nodes/"+id, `{}`))
	}
	written := func() string { return g.state("EDICT_LOG") + g.state("EDICT_REPORTS") + g.state("EDICT_NODES") }
	for _, a := range attempts() {
		t.Run(a.name, func(t *testing.T) {
			before := written()
			require.Error(t, a.do(who{g, a.wrong}), "%s must not", a.wrong)
			require.Equal(t, before, written(), "nothing is written")
			require.NoError(t, a.do(who{g, a.right}), "%s may", a.right)
		})
	}
	t.Run("have the plane answer elsewhere", g.replyElsewhere)
	t.Run("connect in the clear", func(t *testing.T) {
		_, err := nats.Connect(strings.Replace(g.at.NATS, "tls://", "nats://", 1), nats.Token(g.tokens["root"]), nats.NoReconnect())
		require.Error(t, err, "the certificate's authority is not known to who asks for no TLS")
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+g.at.HTTP+"/livez", nil)
		require.NoError(t, err)
		res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, 400, res.StatusCode)
	})
	t.Run("come with a certificate", g.byCertificate)
	replaced := g.registers(t)
	t.Run("be revoked", g.revoked)
	replaced(t)
	g.stop()
	for name, token := range g.tokens {
		if token != "" {
			require.NotContains(t, g.log.String(), token, "the token of %s is logged", name)
		}
	}
}

// state is a stream's last sequence.
func (g *guarded) state(stream string) (last string) {
	err := who{g, "root"}.on(func(nc *nats.Conn) error {
		m, err := nc.Request("$JS.API.STREAM.INFO."+stream, nil, 10*time.Second)
		if err == nil {
			_, last, _ = strings.Cut(string(m.Data), `"last_seq":`)
			last, _, _ = strings.Cut(last, ",")
		}
		return err
	})
	require.NoError(g.t, err)
	return stream + " " + last + " "
}

// replyElsewhere names subjects that nobody may publish to as the place for the
// plane's own answers.
func (g *guarded) replyElsewhere(t *testing.T) {
	before := g.state("EDICT_LOG") + g.state("EDICT_REPORTS")
	for _, to := range []string{"edict.log." + ours + ".node.n1", "edict.report.node.n2", "edict.log.access.n1", "edict.fence.1", "$JS.API.STREAM.PURGE.EDICT_REPORTS", "edict.replay.node.n2"} {
		require.NoError(t, who{g, "n1"}.on(func(nc *nats.Conn) error {
			if err := nc.PublishRequest("edict.replay.node.n1", to, []byte(`{"after":0}`)); err != nil {
				return err
			}
			_, err := nc.Request("edict.replay.node.n1", []byte(`{"after":0}`), 10*time.Second)
			return err
		}), to)
	}
	require.Equal(t, before, g.state("EDICT_LOG")+g.state("EDICT_REPORTS"))
	// A producer's acknowledgement is no event either: one is stored, not two.
	require.NoError(t, who{g, "author"}.on(func(nc *nats.Conn) error {
		own := "edict.log." + ours + ".node.n5"
		if err := nc.PublishRequest(own, "edict.log."+theirs+".node.n5", []byte("{}")); err != nil {
			return err
		}
		_, err := nc.Request(own, []byte("{}"), 10*time.Second)
		return err
	}))
	var head uint64
	_, err := fmt.Sscanf(before, "EDICT_LOG %d", &head)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("EDICT_LOG %d ", head+2), g.state("EDICT_LOG"))
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
	n1 := g.ca.issue("n1", "spiffe://edict.test/n1")
	require.Equal(t, 200, get(n1, "/v1/nodes/n1/state"))
	require.Equal(t, 403, get(n1, "/v1/nodes/n2/state"))
	require.Equal(t, 401, get(g.ca.issue("x", "spiffe://edict.test/x"), "/v1/nodes/n1/state"))
	require.Equal(t, 401, get(g.ca.issue("y", "spiffe://other.test/n1"), "/v1/nodes/n1/state"), "another trust domain")
	require.Equal(t, 0, get(newAuthority(t).issue("z", "spiffe://edict.test/n1"), "/v1/nodes/n1/state"), "another authority")

	config := g.trust.Clone()
	config.Certificates = []tls.Certificate{n1}
	nc, err := nats.Connect(g.at.NATS, nats.Secure(config), nats.CustomInboxPrefix("_INBOX.n1"), nats.NoReconnect())
	require.NoError(t, err)
	defer nc.Close()
	_, err = nc.Request("edict.replay.node.n1", []byte(`{"after":0}`), 10*time.Second)
	require.NoError(t, err)
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
	require.NoError(t, root.http("POST", "/v1/access/principals/n3/relations", `{"relation":"node:n3#agent"}`))
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
