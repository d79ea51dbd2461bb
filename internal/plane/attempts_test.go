package plane

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

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
		nats.Secure(w.trust), w.shown(), nats.CustomInboxPrefix(inbox), nats.NoReconnect(), nats.Timeout(20 * time.Second),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}, opts...)...)
	if err == nil {
		w.t.Cleanup(nc.Close)
	}
	return nc, err
}

// shown is what w shows the server: a token, or credentials where there are any.
func (w who) shown() nats.Option {
	if w.out == nil {
		return nats.Token(w.tokens[w.name])
	}
	if path := w.out.creds[w.name]; path != "" {
		return nats.UserCredentials(path)
	}
	return func(*nats.Options) error { return nil }
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
	_, err := w.body(method, path, body)
	return err
}

// body is what a request is answered with. A stream is not read.
func (w who) body(method, path, body string) ([]byte, error) {
	r, err := http.NewRequestWithContext(w.t.Context(), method, "https://"+w.at.HTTP+path, strings.NewReader(body))
	require.NoError(w.t, err)
	r.Header.Set("Content-Type", "application/json")
	if strings.HasSuffix(path, ":batch") {
		r.Header.Set("Content-Type", "application/x-ndjson")
	}
	if token := w.tokens[w.name]; token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{TLSClientConfig: w.trust, DisableKeepAlives: true}
	res, err := transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode < 300 && strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		return nil, nil
	}
	text, err := io.ReadAll(res.Body)
	if res.StatusCode >= 300 {
		return nil, fmt.Errorf("%s: %s", res.Status, text)
	}
	return text, err
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
			m, err := answer.NextMsg(10 * time.Second)
			if err != nil {
				return err
			}
			if status := m.Header.Get("Status"); status != "" || bytes.Contains(m.Data, []byte(`"error":{`)) {
				return fmt.Errorf("the answer is %s %s", status, m.Data)
			}
			return nil
		})
	}
}

// divert has the answer to a request go to a subject of the log.
func divert(subject, body string) func(who) error {
	return func(w who) error {
		return w.on(func(nc *nats.Conn) error {
			return nc.PublishRequest(subject, "edict.log."+ours+".node.n1", []byte(body))
		})
	}
}

// stored is do, which succeeds when something was stored.
func stored(do func(who) error) func(who) error {
	return func(w who) error {
		before := w.written()
		if err := do(w); err != nil {
			return err
		}
		require.Eventually(w.t, func() bool { return w.written() != before }, 10*time.Second, time.Millisecond, "it was stored")
		return nil
	}
}

func call(method, path, body string) func(who) error {
	return func(w who) error { return w.http(method, path, body) }
}

// attempts are what a hostile node, a hostile author and a stranger try over
// NATS, HTTP and SSE, and who may. Nodes n1 and n2 are told a policy; stream
// SCRATCH has a message, which says nothing of its own, and a consumer.
func attempts(told string) []attempt {
	// The facts of n1 are as they were, and n3 has no policy: the plane announces
	// nothing.
	node := func(id, labels string) string {
		return fmt.Sprintf(`{"id":%q,"type":"node_updated","project_id":%q,"node_id":%q,"labels":%s,"addresses":[]}`, uuid.New(), ours, id, labels)
	}
	const facts = `{"node":"n1"}`
	consumer := func(name, rest string) string {
		return `{"stream_name":"EDICT_NODE_EVENTS","config":{"name":"` + name + `","ack_policy":"none","inactive_threshold":60000000000,` + rest + `}}`
	}
	return []attempt{
		{"hear another's live messages", "n1", "n2", listen("edict.node.n2.>")},
		{"hear one of another's live messages", "n1", "n2", listen("edict.node.n2.p")},
		{"hear all live messages", "n1", "root", listen("edict.node.>")},
		{"hear everything live", "n1", "root", listen("edict.*.n1.>")},
		{"hear everything", "n1", "root", listen(">")},
		{"hear any node's policy", "n1", "root", listen("edict.node.*.p")},
		{"hear another's inbox", "n1", "n2", listen("_INBOX.n2.>")},
		{"hear all inboxes", "n1", "root", listen("_INBOX.>")},
		{"hear the log", "n1", "root", listen("edict.log.>")},
		{"hear what was rejected", "n1", "root", listen("edict.rejected.>")},
		{"hear reports", "n1", "root", listen("edict.report.node.*")},
		{"hear requests for replays", "n1", "root", listen("edict.replay.node.*")},
		{"share in answering replays", "n1", "root", share("edict.replay.node.*")},
		{"share in another's live messages", "n1", "n2", share("edict.node.n2.>")},
		{"hear JetStream", "n1", "root", listen("$JS.>")},
		{"ask for another's replay", "n1", "n2", ask("edict.replay.node.n2", `{"after":"0"}`)},
		{"report for another", "n1", "n2", ask("edict.report.node.n2", `{"version":0,"fingerprint":""}`)},
		{"report for all", "n1", "root", stored(tell("edict.report.node.x", "{}"))},
		{"tell itself something", "n1", "root", stored(tell("edict.node.n1.p", "{}"))},
		{"tell another something", "n1", "root", stored(tell("edict.node.n2.p", "{}"))},
		{"have something stored for a node", "n1", "root", stored(tell("edict.node.nx.p", "{}"))},
		{"ask what JetStream holds", "n1", "root", ask("$JS.API.INFO", "")},
		{"ask for the log's state", "n1", "root", ask("$JS.API.STREAM.INFO.EDICT_LOG", "")},
		{"read a message by its number", "n1", "root", ask("$JS.API.STREAM.MSG.GET.EDICT_LOG", `{"seq":1}`)},
		{"read another's message directly", "n1", "root", ask("$JS.API.DIRECT.GET.EDICT_NODE_EVENTS.edict.node.n2."+told, "")},
		{"read another's message by its subject in the body", "n1", "root", ask("$JS.API.DIRECT.GET.EDICT_NODE_EVENTS", `{"last_by_subj":"edict.node.n2.`+told+`"}`)},
		{"read whatever comes next for another", "n1", "root", ask("$JS.API.DIRECT.GET.EDICT_NODE_EVENTS", `{"seq":1,"next_by_subj":"edict.node.n2.>"}`)},
		{"read a message of the stream of node events", "n1", "root", ask("$JS.API.STREAM.MSG.GET.EDICT_NODE_EVENTS", `{"last_by_subj":"edict.node.n2.`+told+`"}`)},
		{"make a consumer", "n1", "root", ask("$JS.API.CONSUMER.CREATE.EDICT_NODE_EVENTS", `{"stream_name":"EDICT_NODE_EVENTS","config":{"ack_policy":"none","inactive_threshold":1000000000}}`)},
		{"make a consumer of its own messages", "n1", "root", ask("$JS.API.CONSUMER.CREATE.EDICT_NODE_EVENTS.own.edict.node.n1.>", consumer("own", `"filter_subject":"edict.node.n1.>"`))},
		{"make a consumer of another's messages", "n1", "root", ask("$JS.API.CONSUMER.CREATE.EDICT_NODE_EVENTS.theirs.edict.node.n2.>", consumer("theirs", `"filter_subject":"edict.node.n2.>"`))},
		{"make a consumer of several nodes' messages", "n1", "root", ask("$JS.API.CONSUMER.CREATE.EDICT_NODE_EVENTS.both", consumer("both", `"filter_subjects":["edict.node.n1.>","edict.node.n2.>"]`))},
		{"make a consumer whose subject hides what it reads", "n1", "root", ask("$JS.API.CONSUMER.DURABLE.CREATE.EDICT_NODE_EVENTS.n1", consumer("n1", `"durable_name":"n1","filter_subject":"edict.node.n2.>"`))},
		{"make a consumer that delivers elsewhere", "n1", "root", ask("$JS.API.CONSUMER.CREATE.EDICT_NODE_EVENTS.push", consumer("push", `"deliver_subject":"edict.stray"`))},
		{"take the next message of a consumer", "n1", "root", ask("$JS.API.CONSUMER.MSG.NEXT.EDICT_NODE_EVENTS.theirs", `{"batch":1,"no_wait":true}`)},
		{"list the consumers", "n1", "root", ask("$JS.API.CONSUMER.LIST.EDICT_NODE_EVENTS", "")},
		{"have a consumer write to the log", "n1", "root", stored(divert("$JS.API.CONSUMER.MSG.NEXT.SCRATCH.all", `{"batch":1,"no_wait":true}`))},
		{"have a direct read write to the log", "n1", "root", stored(divert("$JS.API.DIRECT.GET.SCRATCH.scratch", ""))},
		{"have JetStream's information written to the log", "n1", "root", stored(divert("$JS.API.INFO", ""))},
		{"delete a stream", "n1", "root", ask("$JS.API.STREAM.DELETE.SCRATCH", "")},
		{"purge the reports", "n1", "root", ask("$JS.API.STREAM.PURGE.EDICT_REPORTS", "")},
		{"write a key", "n1", "root", tell("$KV.EDICT_META.x", "x")},
		{"append a node's facts", "n1", "author", ask("edict.log."+ours+".node.n1", node("n1", facts))},
		{"ask what became of another project's event", "stranger", "author", ask("edict.verdict."+ours+".1", "")},
		{"ask what became of an event of the plane", "author", "root", ask("edict.verdict.access.1", "")},
		{"ask what became of an event as a node", "n1", "author", ask("edict.verdict."+ours+".1", "")},
		{"answer what became of events", "author", "root", share("edict.verdict.*.*")},
		{"hear what became of others' events", "author", "root", listen("edict.verdict.>")},
		{"append to another project", "stranger", "author", ask("edict.log."+ours+".node.n3", node("n3", "{}"))},
		{"append a policy without managing it", "operator", "stranger", ask("edict.log."+theirs+".policy."+theirs, "{}")},
		{"append a relation", "author", "root", ask("edict.log.access.author", "{}")},
		{"append an admission policy", "author", "root", ask("edict.log.admission.x", "{}")},
		{"listen as a producer", "author", "root", listen("edict.log.>")},
		{"listen to a node as a producer", "author", "n1", listen("edict.node.n1.>")},
		{"connect with relations that say nothing of NATS", "reader", "author", stored(tell("edict.log."+ours+".node.n4", "{}"))},
		{"connect without a token", "none", "root", tell("x", "")},
		{"connect with a wrong token", "nobody", "root", tell("x", "")},
		{"connect with the name in a certificate as a token", "named", "root", tell("x", "")},
		{"connect with a token that is over", "expired", "root", tell("x", "")},
		{"pull another's state", "n1", "n2", call("GET", "/v1/nodes/n2/state", "")},
		{"read another's rulesets", "n1", "n2", call("GET", "/v1/nodes/n2/rulesets", "")},
		{"read another's table", "n1", "n2", call("GET", "/v1/nodes/n2/datapath", "")},
		{"follow another", "n1", "n2", call("GET", "/v1/nodes/n2/events", "")},
		{"report for another over HTTP", "n1", "n2", call("POST", "/v1/nodes/n2/applied", `{"version":1,"fingerprint":"T1PNoYwrqgwDVLtfmj7L5e0Sq02OEbqHPC8RFhICuUU="}`)},
		{"change its own labels", "n1", "author", call("PUT", "/v1/projects/"+ours+"/nodes/n1", `{"labels":`+facts+`}`)},
		{"make an administrator", "author", "root", call("POST", "/v1/access/principals/somebody/relations", `{"relation":"plane#admin"}`)},
		{"read the policies of others", "stranger", "author", call("GET", "/v1/projects/"+ours+"/policies", "")},
	}
}
