package agent_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/cmd/edict/internal/agent"
	"github.com/edictdev/edict/cmd/tree"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/node"
)

// runs is an agent that runs, and what it says.
type runs struct {
	disk
	plane   *plane
	refused chan error
	trouble chan error
	changed chan uint64
	stop    func()
}

// start opens and runs an agent on a disk.
func start(t *testing.T, d disk, p *plane, silence time.Duration) *runs {
	t.Helper()
	r := &runs{d, p, make(chan error, 1), make(chan error, 16), make(chan uint64, 16), nil}
	a := d.open(t, agent.Options{
		Server: p.url,
		Follow: node.Options{
			MinWait: time.Millisecond, MaxWait: time.Millisecond, Silence: silence,
			Trouble: func(err error, _ time.Duration) {
				select {
				case r.trouble <- err:
				default:
				}
			},
		},
		OnChange: func(_ context.Context, version uint64) error { r.changed <- version; return nil },
		Refused:  func(err error) { r.refused <- err },
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	r.stop = func() {
		cancel()
		require.NoError(t, <-ended)
	}
	return r
}

// installs waits until a release is installed, and compares what lies there.
func (r *runs) installs(t *testing.T, rel release) {
	t.Helper()
	set := rel.make()
	told := func() string { return r.Files(dir)["on-change.done"] }
	before := told()
	r.plane.release(set, nil)
	require.Equal(t, rel.version, <-r.changed)
	require.Equal(t, files(set), r.set())
	// That the change was told is written after it was.
	require.Eventually(t, func() bool { return told() != before }, 10*time.Second, time.Millisecond)
}

// refuses waits until the set of the plane is refused, and says why.
func (r *runs) refuses(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.refused:
		return err
	case version := <-r.changed:
		require.FailNow(t, "it was installed", "version %d", version)
		return nil
	}
}

// edit changes the text of one artifact of a set.
func edit(set node.Artifacts, kind string, change func(text string) string) node.Artifacts {
	for i := range set.Items {
		if set.Items[i].Kind == kind {
			set.Items[i].Document = change(set.Items[i].Document)
		}
	}
	return set
}

func replaced(old, text string) func(string) string {
	return func(doc string) string {
		if strings.Count(doc, old) != 1 {
			panic(fmt.Sprintf("%q is there %d times", old, strings.Count(doc, old)))
		}
		return strings.Replace(doc, old, text, 1)
	}
}

// signature is that of a document, from its first character on.
func signature(doc string) string { return doc[strings.Index(doc, `"signature"`):] }

// attacks are sets that a node which accepted version 5 must refuse, and why.
var attacks = []struct {
	name string
	set  func() node.Artifacts
	want error
	says string
}{
	{"forged: changed after it was signed", func() node.Artifacts {
		return edit(release{version: 6}.make(), "vertex", replaced("127.0.0.1:18000", "127.0.0.1:18001"))
	}, artifact.ErrBadSignature, "vertex flor"},
	{"forged: signed by somebody under the signer's name", func() node.Artifacts {
		return edit(release{version: 6, signer: "stranger"}.make(), "agent", replaced(signerID("stranger"), signerID("primary")))
	}, artifact.ErrBadSignature, "agent agent: bad signature: not made by " + signerID("primary")},
	{"unsigned", func() node.Artifacts {
		return edit(release{version: 6}.make(), "agent", func(doc string) string {
			return strings.TrimSuffix(strings.TrimSpace(strings.TrimSuffix(doc, signature(doc))), ",") + "\n}\n"
		})
	}, artifact.ErrMalformed, "every field is required"},
	{"alg none", func() node.Artifacts {
		return edit(release{version: 6}.make(), "agent", func(doc string) string {
			return strings.TrimSuffix(doc, signature(doc)) + `"signature": {"alg": "none", "key_id": "` + signerID("primary") + `", "value": "unsigned"}}`
		})
	}, artifact.ErrBadSignature, `algorithm "none"; want ed25519`},
	{"another node's", func() node.Artifacts { return release{version: 6, node: "beta"}.make() }, artifact.ErrMisdirected, "{beta mgmt agent agent}"},
	{"another node's agent, own vertex", func() node.Artifacts {
		set, other := release{version: 6}.make(), release{version: 6, node: "beta"}.make()
		set.Items[0] = other.Items[0]
		return set
	}, artifact.ErrMisdirected, "agent agent"},
	{"another kind under an agent's name", func() node.Artifacts {
		set := release{version: 6}.make()
		set.Items[0].Document = set.Items[1].Document
		return set
	}, artifact.ErrMisdirected, "{alpha mgmt vertex flor}"},
	{"a rollback", func() node.Artifacts { return release{version: 4}.make() }, artifact.ErrRollback, "has version 5, offered 4"},
	{"an equal version with other bytes", func() node.Artifacts { return release{version: 5, change: "9"}.make() }, artifact.ErrForked, "vertex flor"},
	{"a mixed set", func() node.Artifacts {
		set := release{version: 6}.make()
		set.Items[1] = release{version: 5}.make().Items[1]
		return set
	}, artifact.ErrNotOneSet, "version 5 beside 6"},
	{"a set that lacks a vertex", func() node.Artifacts {
		set := release{version: 6}.make()
		set.Items = set.Items[:1]
		return set
	}, artifact.ErrNotOneSet, "vertex flor"},
	{"a set that lacks the agent", func() node.Artifacts {
		set := release{version: 6}.make()
		set.Items = set.Items[1:]
		return set
	}, artifact.ErrNotOneSet, "agent agent"},
	{"a truncated artifact", func() node.Artifacts {
		return edit(release{version: 6}.make(), "vertex", func(doc string) string { return doc[:len(doc)/2] })
	}, artifact.ErrMalformed, "vertex flor"},
	{"a signer that vouched for itself", func() node.Artifacts {
		return release{version: 6, signer: "stranger", authorizes: []string{"primary", "stranger"}}.make()
	}, artifact.ErrUnknownKey, signerID("stranger")},
	{"a vertex by a signer that the agent beside it does not authorize", func() node.Artifacts {
		set := release{version: 6}.make()
		set.Items[1] = release{version: 6, signer: "stranger"}.make().Items[1]
		return set
	}, artifact.ErrUnknownKey, "vertex flor"},
	{"no signer authorized any more", func() node.Artifacts { return release{version: 6, authorizes: []string{}}.make() }, nil, "authorizes no signer"},
	{"a vertex whose name leads out of the root", func() node.Artifacts {
		return release{version: 6, vertex: "../../../evil"}.make()
	}, nil, "is no name"},
	{"a key said twice", func() node.Artifacts {
		return edit(release{version: 6}.make(), "agent", replaced(`"version": 6`, `"version": 4, "version": 6`))
	}, artifact.ErrMalformed, "duplicate"},
	{"a key said twice inside the payload", func() node.Artifacts {
		return edit(release{version: 6}.make(), "agent", replaced(`"ca_cert_path": "ca.crt"`, `"ca_cert_path": "no.crt", "ca_cert_path": "ca.crt"`))
	}, artifact.ErrMalformed, "duplicate"},
	{"a newer schema", func() node.Artifacts {
		return edit(release{version: 6}.make(), "agent", replaced(`"schema_version": "1.0"`, `"schema_version": "2.0"`))
	}, artifact.ErrSchemaVersion, `"2.0"`},
}

func TestAnAgentRefusesWhatItShouldAndSaysWhy(t *testing.T) {
	gen.Unraced()
	whole := t
	p := newPlane(t)
	r := start(t, newDisk(t, true), p, 0)
	defer func() { r.stop() }()
	good := release{version: 5}
	r.installs(t, good)
	accepted := r.Files(dir)

	for _, c := range attacks {
		t.Run(c.name, func(t *testing.T) {
			p.release(c.set(), nil)
			err := r.refuses(t)
			require.ErrorContains(t, err, c.says)
			if c.want != nil {
				require.ErrorIs(t, err, c.want)
			}
			require.Equal(t, accepted, r.Files(dir), "nothing is touched")
		})
	}
	t.Run("an oversized answer", func(t *testing.T) {
		p.release(node.Artifacts{}, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"items":[{"document":"`)
			for chunk := strings.Repeat("x", 1<<20); ; {
				if _, err := io.WriteString(w, chunk); err != nil {
					return
				}
			}
		})
		require.ErrorContains(t, <-r.trouble, "larger than")
		require.Equal(t, accepted, r.Files(dir))
	})
	t.Run("a replay after a restart", func(t *testing.T) {
		p.release(good.make(), nil)
		r.stop()
		r = start(whole, r.disk, p, 0)
		p.release(release{version: 4}.make(), nil)
		require.ErrorIs(t, r.refuses(t), artifact.ErrRollback)
		require.Equal(t, accepted, r.Files(dir))
	})
	t.Run("a retired signer", func(t *testing.T) {
		r.installs(t, release{version: 6, authorizes: []string{"primary", "second"}})
		last := release{version: 7, signer: "second", authorizes: []string{"second"}}
		half := last.make()
		half.Items[1] = release{version: 7}.make().Items[1]
		p.release(half, nil)
		err := r.refuses(t)
		require.ErrorIs(t, err, artifact.ErrUnknownKey, "the agent artifact beside it retires its signer")
		require.ErrorContains(t, err, "vertex flor")
		r.installs(t, last)
		p.release(release{version: 8}.make(), nil)
		require.ErrorIs(t, r.refuses(t), artifact.ErrUnknownKey)
		p.release(release{version: 6, authorizes: []string{"primary", "second"}}.make(), nil)
		require.Error(t, r.refuses(t), "the set that once let it in")
		r.installs(t, release{version: 8, signer: "second", authorizes: []string{"second"}})
	})
}

func TestASlowPlaneIsLeftAndAskedAgain(t *testing.T) {
	p := newPlane(t)
	r := start(t, newDisk(t, true), p, 200*time.Millisecond)
	defer r.stop()
	r.installs(t, release{version: 5})
	accepted := r.Files(dir)
	held := make(chan struct{})
	p.release(node.Artifacts{}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"items":[`)
		w.(http.Flusher).Flush()
		select { // a byte now and then would do as well: the whole answer has its time
		case <-r.Context().Done():
		case <-held:
		}
	})
	for !errors.Is(<-r.trouble, context.DeadlineExceeded) {
	}
	require.Equal(t, accepted, r.Files(dir))
	close(held)
	r.installs(t, release{version: 6})
}

func TestAnAgentRefusesToStartWithoutAGoodPin(t *testing.T) {
	for _, c := range []struct {
		name, pin, accepted, says string
	}{
		{"none", "", "", "retectl bundle alpha"},
		{"another node's", strings.Replace(pin(), `"alpha"`, `"beta"`, 1), "", `of node "beta"`},
		{"no signer in it", `{"rete":"r","node":"alpha","authorized_mgmt_signers":[]}`, "", "names no signer"},
		{"no pin at all", "{", "", "malformed trust pin"},
		{"a damaged state", pin(), "{", "put back the file"},
		{"a state that began with another pin", pin(), `{"rete":"r","node":"alpha","pin":"sha256:00","authorized_mgmt_signers":[{"spiffe_id":"x","pubkey":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}],"set":"","accepted":[]}`, "another trust pin"},
	} {
		t.Run(c.name, func(t *testing.T) {
			at := t.TempDir()
			write := func(name, text string) {
				if text != "" {
					require.NoError(t, os.WriteFile(filepath.Join(at, name), []byte(text), 0o600))
				}
			}
			write(tree.PinFile, c.pin)
			write(tree.AcceptedFile, c.accepted)
			_, err := agent.Open(agent.Options{Node: self, Dir: at})
			var config *agent.ConfigError
			require.ErrorAs(t, err, &config)
			require.ErrorContains(t, err, c.says)
		})
	}
}

func TestOnARealDiskASetReplacesTheLastAndIsWhatRetectlVerifies(t *testing.T) {
	at := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(at, tree.PinFile), []byte(pin()), 0o600))
	a, err := agent.Open(agent.Options{Node: self, Dir: at})
	require.NoError(t, err)
	for _, version := range []uint64{5, 6} {
		set := release{version: version}.make()
		require.NoError(t, a.Offer(set))
		require.Equal(t, version, a.Version())
		for name, content := range files(set) {
			got, err := os.ReadFile(filepath.Join(at, name))
			require.NoError(t, err)
			require.Equal(t, content, string(got))
		}
	}
	names, err := filepath.Glob(filepath.Join(at, "*"))
	require.NoError(t, err)
	require.Len(t, names, 3, "the pin, what was accepted, and the set: %v", names)
	p, err := artifact.ParsePin([]byte(pin()))
	require.NoError(t, err)
	trust, err := p.Trust()
	require.NoError(t, err)
	n, faults := tree.Verify(tree.InstallRoot(os.DirFS(at), self), trust)
	require.Empty(t, faults)
	require.Equal(t, 2, n)
}
