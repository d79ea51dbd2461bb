package agent_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/cmd/edict/internal/agent"
	"github.com/edictdev/edict/cmd/tree"
	"github.com/edictdev/edict/internal/compiler/rete"
	"github.com/edictdev/edict/internal/test/crashfs"
	"github.com/edictdev/edict/internal/test/reterepo"
	"github.com/edictdev/edict/node"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const self = "alpha"

// sets are what the specification's repository compiles to, by node.
var sets = sync.OnceValue(func() map[string]rete.NodeSet {
	repo := reterepo.Example()
	names, faults := rete.Discover(repo)
	view, more := rete.Load(repo, names)
	m, worse := rete.Validate(view, repo)
	all, worst := rete.Compile(m)
	if n := len(faults) + len(more) + len(worse) + len(worst); n > 0 {
		panic(fmt.Sprint(n, " faults in the example"))
	}
	by := map[string]rete.NodeSet{}
	for _, s := range all {
		by[s.Node] = s
	}
	return by
})

func signerID(name string) string { return "spiffe://rete-lovers/management-plane/" + name }

func signerOf(name string) *artifact.Signer {
	s, err := artifact.ParseSigner(reterepo.KeyPEM(name))
	if err != nil {
		panic(err)
	}
	return s.As(signerID(name))
}

// release is how a set is made.
type release struct {
	node       string // default self
	version    uint64
	signer     string   // default primary
	authorizes []string // default primary alone
	vertex     string   // default flor
	change     string   // replaces the upstream of a service, so that the payload differs
}

// make signs the set.
func (r release) make() node.Artifacts {
	if r.node == "" {
		r.node = self
	}
	if r.signer == "" {
		r.signer = "primary"
	}
	if r.authorizes == nil {
		r.authorizes = []string{"primary"}
	}
	var set node.Artifacts
	for _, a := range sets()[r.node].Artifacts {
		payload := r.payload(a)
		if r.vertex != "" && a.Kind == rete.ArtifactVertex {
			a.Name = r.vertex
		}
		doc, err := signerOf(r.signer).SealDocument(artifact.Envelope{
			Plane: artifact.PlaneMgmt, Kind: a.Kind, Version: r.version, Node: r.node, Name: a.Name,
			GeneratedAt: time.Unix(1776686400, 0), Payload: payload,
		})
		if err != nil {
			panic(err)
		}
		set.Items = append(set.Items, node.Artifact{Kind: a.Kind, Name: a.Name, Version: r.version, Document: string(doc)})
	}
	return set
}

func (r release) payload(a rete.Artifact) json.RawMessage {
	if a.Kind == rete.ArtifactVertex {
		return json.RawMessage(strings.Replace(string(a.Payload), "127.0.0.1:8000", "127.0.0.1:800"+r.change, 1))
	}
	p, faults := rete.CheckAgent(a.Payload)
	if len(faults) > 0 {
		panic(faults)
	}
	if r.vertex != "" {
		p.Vertices[0].Name = r.vertex
	}
	p.Trust.Signers = nil
	for _, name := range r.authorizes {
		p.Trust.Signers = append(p.Trust.Signers, rete.AuthorizedSigner{SPIFFE: signerID(name), Key: signerOf(name).PublicKey()})
	}
	payload, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	return payload
}

// files are a set as it lies in an install root.
func files(set node.Artifacts) map[string]string {
	all := map[string]string{}
	for _, item := range set.Items {
		all[rete.ArtifactPath(item.Kind, item.Name)] = item.Document
	}
	return all
}

func pin() string {
	text, err := artifact.Pin{Rete: "rete-lovers", Node: self, Signers: []artifact.PinSigner{{SPIFFE: signerID("primary"), Key: signerOf("primary").PublicKey()}}}.JSON()
	if err != nil {
		panic(err)
	}
	return string(text)
}

const dir = "root"

// disk is an install root as retectl bundle leaves it.
type disk struct{ *crashfs.FS }

func newDisk(t *testing.T, exchange bool) disk {
	t.Helper()
	d := disk{crashfs.New(exchange)}
	require.NoError(t, d.MkdirAll(dir))
	require.NoError(t, d.WriteFile(dir+"/"+tree.PinFile, []byte(pin())))
	return disk{d.Settle(0)}
}

// set is the installed one.
func (d disk) set() map[string]string {
	all := map[string]string{}
	for name, content := range d.Files(dir + "/mgmt") {
		all["mgmt/"+name] = content
	}
	return all
}

func (d disk) open(t *testing.T, opt agent.Options) *agent.Agent {
	t.Helper()
	a, err := agent.Open(d.options(opt))
	require.NoError(t, err)
	return a
}

func (d disk) options(opt agent.Options) agent.Options {
	opt.Node, opt.Dir, opt.FS = self, dir, d
	return opt
}

var _ agent.FS = disk{}

// plane is a fake one: it holds a set, says so, and may do worse.
type plane struct {
	signer *artifact.Signer
	url    string

	mu    sync.Mutex
	seq   uint64
	set   node.Artifacts
	wake  chan struct{}
	serve http.HandlerFunc           // of /artifacts; nil: the set
	form  func(notice []byte) []byte // of what is sent as an event; nil: as it is
	forms []string                   // asked for
	said  []string                   // reports of what was applied
}

func newPlane(t *testing.T) *plane {
	t.Helper()
	signer, err := artifact.GenerateSigner()
	require.NoError(t, err)
	p := &plane{signer: signer, wake: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/keys", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"items":[{"key_id":%q,"alg":"ed25519","plane":"policy","public_key":%q,"status":"current","not_after":null}]}`,
			signer.KeyID(), base64.StdEncoding.EncodeToString(signer.PublicKey()))
	})
	mux.HandleFunc("GET /v1/nodes/"+self+"/artifacts", p.artifacts)
	mux.HandleFunc("GET /v1/nodes/"+self+"/events", p.events)
	mux.HandleFunc("GET /v1/nodes/"+self+"/state", func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		w.Header().Set("Edict-Event-Id", strconv.FormatUint(p.seq, 10))
		fmt.Fprint(w, `{"policy":null}`)
	})
	mux.HandleFunc("GET /v1/nodes/"+self+"/rulesets", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"items":[]}`) })
	mux.HandleFunc("POST /v1/nodes/"+self+"/applied", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // what was cut off is no report
		p.mu.Lock()
		defer p.mu.Unlock()
		p.said = append(p.said, string(body))
		w.WriteHeader(http.StatusNoContent)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	p.url = server.URL
	return p
}

// release has the plane hold a set, and announce it. With serve, that answers in
// place of the set.
func (p *plane) release(set node.Artifacts, serve http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seq++
	p.set, p.serve = set, serve
	close(p.wake)
	p.wake = make(chan struct{})
}

func (p *plane) artifacts(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	serve, set, seq := p.serve, p.set, p.seq
	p.mu.Unlock()
	w.Header().Set("Edict-Event-Id", strconv.FormatUint(seq, 10))
	if serve != nil {
		serve(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"items": set.Items})
}

func (p *plane) events(w http.ResponseWriter, r *http.Request) {
	after, err := strconv.ParseUint(r.Header.Get("Last-Event-ID"), 10, 64)
	if err != nil {
		http.Error(w, "bad", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	p.mu.Lock()
	p.forms = append(p.forms, r.Header.Get("Accept"))
	p.mu.Unlock()
	for {
		p.mu.Lock()
		wake, seq, form := p.wake, p.seq, p.form
		var hint node.Artifact // withdrawn, where there is no set
		if len(p.set.Items) > 0 {
			hint = p.set.Items[0]
		}
		p.mu.Unlock()
		if seq > after {
			after = seq
			notice := p.signer.AppendNotice(nil, artifact.Notice{
				ID: fmt.Sprintf("alpha.agent.%d", seq), Type: node.TypeArtifactUpdated, Scope: "node:" + self, IssuedAt: time.Now(),
				Payload: fmt.Appendf(nil, `{"node_id":"alpha","kind":%q,"name":%q,"version":%d,"fingerprint":"","document":%q}`, hint.Kind, hint.Name, hint.Version, hint.Name),
			})
			if form != nil {
				notice = form(notice)
			}
			fmt.Fprintf(w, "id: %d\nevent: artifact_updated\ndata: %s\n\n", seq, notice)
		} else {
			fmt.Fprint(w, ":keep-alive\n\n")
		}
		w.(http.Flusher).Flush()
		select {
		case <-wake:
		case <-r.Context().Done():
			return
		}
	}
}

// speak has the plane announce something, in a form; nil: in the right one. What
// it announced before it says in that form too, to whoever comes back.
func (p *plane) speak(form func(notice []byte) []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seq++
	p.form = form
	close(p.wake)
	p.wake = make(chan struct{})
}

// position is the event that was announced last.
func (p *plane) position() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seq
}

// reports are what the agent says it applied.
func (p *plane) reports() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.said)
}

// asked are the forms that were asked for.
func (p *plane) asked() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.forms)
}
