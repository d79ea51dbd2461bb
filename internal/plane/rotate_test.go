package plane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/client"
	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/datadir"
	"github.com/edictdev/edict/internal/keyring"
	"github.com/edictdev/edict/node"
	"github.com/edictdev/edict/policy"
)

// rotated is a plane whose key is rotated while an author writes and nodes
// follow.
type rotated struct {
	t    *testing.T
	opt  Options
	at   Addresses
	stop func()
	*client.Client

	policy uuid.UUID
	port   uint16 // of the last revision that was accepted
	nodes  []*following
}

// following is one node, and what it met.
type following struct {
	*node.Follower
	id   policy.NodeID
	stop func()

	mu       sync.Mutex
	forged   uint64 // messages that the test forged
	ids      []policy.EventID
	troubles []error
}

func (r *rotated) start() {
	r.at, r.stop = start(r.t, r.opt)
	r.opt.HTTP, r.opt.NATSListen = r.at.HTTP, r.at.NATS[len("nats://"):]
	if r.Client == nil {
		r.Client = newClient(r.t, r.at)
	}
}

// restart has the plane stop and start anew on its data.
func (r *rotated) restart() {
	r.stop()
	r.start()
}

// write has the next revision of the policy accepted.
func (r *rotated) write() {
	r.port++
	_, err := r.Policies.Revise(r.t.Context(), project, r.policy, resource.Patch{Rules: allow(r.port)})
	require.NoError(r.t, err)
}

// create makes the policy that is revised, and one that never is: nodes are told
// of that one once, by the first key.
func (r *rotated) create() {
	for i, slug := range []string{"still", "web"} {
		r.port = uint16(i + 1)
		made, err := r.Policies.Create(r.t.Context(), project, resource.Draft{
			Slug: slug, Selector: resource.Selector{Source: "role=web", Destination: "role=none"}, Rules: allow(r.port),
		})
		require.NoError(r.t, err)
		r.policy = made.ID
	}
}

func allow(port uint16) []resource.Rule {
	return []resource.Rule{{Action: "allow", Protocol: "tcp", SourceCIDR: "10.0.0.0/8", DestinationCIDR: "10.1.0.0/16", Ports: &resource.Ports{From: port, To: port}}}
}

// keys are the plane's as it shows them.
func (r *rotated) keys() []resource.Key {
	keys, err := r.Keys.List(r.t.Context())
	require.NoError(r.t, err)
	return keys
}

// trust is a file of the keys as they are now.
func (r *rotated) trust() *artifact.TrustSet {
	text, err := json.Marshal(resource.Items[resource.Key]{Items: r.keys()})
	require.NoError(r.t, err)
	trust, err := node.ParseKeys(text)
	require.NoError(r.t, err)
	return trust
}

// rotate replaces the key.
func (r *rotated) rotate(transition time.Duration) {
	before := r.keys()
	keys, err := r.Keys.Rotate(r.t.Context(), transition)
	require.NoError(r.t, err)
	require.Len(r.t, keys, 2)
	require.Equal(r.t, before[0].KeyID, keys[1].KeyID)
	require.NotEqual(r.t, before[0].KeyID, keys[0].KeyID)
	require.Nil(r.t, keys[0].NotAfter)
	require.NotNil(r.t, keys[1].NotAfter)
}

func (r *rotated) follow(id string, opt node.Options, server string) *following {
	f := &following{id: policy.NodeID(id)}
	opt.MinWait, opt.MaxWait = 5*time.Millisecond, 50*time.Millisecond
	opt.Trouble = func(err error, _ time.Duration) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.troubles = append(f.troubles, err)
	}
	f.Follower = node.NewFollower(server, f.id, opt)
	ctx, cancel := context.WithCancel(r.t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- f.Run(ctx, func(e node.Event) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			if e.Policy != nil {
				f.ids = append(f.ids, e.ID)
			}
			return nil
		})
	}()
	f.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(r.t, <-ended, id)
	})
	r.t.Cleanup(f.stop)
	r.nodes = append(r.nodes, f)
	return f
}

// holds reports whether a node holds both policies, the one as it was revised
// last, and nothing else.
func (f *following) holds(port uint16) bool {
	var rules []resource.Rule
	return json.Unmarshal(f.Merged().Rules, &rules) == nil && len(rules) == 2 && rules[0].Ports.From+rules[1].Ports.From == port+1
}

// settled waits until every node holds what the author wrote last, and judges
// what they met.
func (r *rotated) settled() {
	for _, f := range r.nodes {
		require.Eventually(r.t, func() bool { return f.holds(r.port) }, 20*time.Second, time.Millisecond, "node %s", f.id)
		require.Equal(r.t, f.forged, f.Refused(), "node %s", f.id)
		f.mu.Lock()
		for i := 1; i < len(f.ids); i++ {
			require.Greater(r.t, f.ids[i], f.ids[i-1], "node %s", f.id)
		}
		for _, err := range f.troubles {
			var untrusted *node.UntrustedKeyError
			require.False(r.t, errors.As(err, &untrusted), "node %s: %v", f.id, err)
		}
		f.mu.Unlock()
	}
}

// forge has a message of a key's published as if the plane told it.
func (r *rotated) forge(by *artifact.Signer, id string) {
	rules, err := artifact.PrepareRules([]byte(`[]`), 0)
	require.NoError(r.t, err)
	nc, err := nats.Connect(r.at.NATS)
	require.NoError(r.t, err)
	defer nc.Close()
	_, err = by.SealRuns(nil, []artifact.Message{{
		Node: policy.NodeID(id), Policy: r.policy, Revision: uuid.New(), Version: 1 << 40, GeneratedAt: time.Now(), Rules: rules,
	}}, func(_ int, wire []byte) {
		m := nats.NewMsg(fmt.Sprintf("edict.node.%s.%s", id, r.policy))
		m.Header.Set("Edict-Event-Id", policy.NewEventID(0, 1<<40, 1).String())
		m.Header.Set("Edict-Prev", "1")
		m.Data = wire
		require.NoError(r.t, nc.PublishMsg(m))
	})
	require.NoError(r.t, err)
	require.NoError(r.t, nc.Flush())
}

// A plane's key is replaced twice while an author writes and nodes follow over
// both transports, with restarts in between: no good message is refused, what
// nodes hold at the end is what was written, and a key that was replaced counts
// for nothing once its transition is over.
func TestTheKeyIsRotatedUnderLoad(t *testing.T) {
	dir := t.TempDir()
	r := &rotated{t: t, opt: Options{Data: dir, NATSListen: "127.0.0.1:0", Relaxed: true, leastTransition: time.Second}}
	r.start()
	for i := range 6 {
		_, _, err := r.Nodes.Put(t.Context(), project, fmt.Sprintf("n%d", i), resource.Facts{Labels: map[string]string{"role": "web"}})
		require.NoError(t, err)
	}
	r.create()
	oldest, err := artifact.LoadSigner(datadir.Dir(dir).SigningKey())
	require.NoError(t, err)
	given := r.trust()
	url := "http://" + r.at.HTTP
	r.follow("n0", node.Options{}, url)
	r.follow("n1", node.Options{Trust: given}, url)
	r.follow("n2", node.Options{Trust: r.trust(), NATS: r.at.NATS, AskEvery: 200 * time.Millisecond}, "")
	r.follow("n3", node.Options{NATS: r.at.NATS}, url)
	// A node that is away during a rotation, and back before its transition ends.
	state := filepath.Join(t.TempDir(), "n4.json")
	away := r.follow("n4", node.Options{Trust: r.trust(), State: state}, url)
	before := given.Keys(artifact.PlanePolicy)
	first := func() *artifact.TrustSet { // the file of keys that it was given
		trust := artifact.NewTrustSet()
		for _, k := range before {
			require.NoError(t, trust.Add(artifact.PlanePolicy, k.KeyID, k.PublicKey, k.NotAfter))
		}
		return trust
	}
	for range 10 {
		r.write()
	}
	r.settled()
	away.stop()
	r.nodes = r.nodes[:4]

	r.rotate(2 * time.Second)
	_, err = r.Keys.Rotate(t.Context(), time.Minute)
	var refused *client.Problem
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "key_in_transition", refused.Code)
	for range 20 {
		r.write()
	}
	back := r.follow("n4", node.Options{Trust: first(), State: state}, url)
	r.settled()
	back.stop()
	r.nodes = r.nodes[:4]
	require.Eventually(t, func() bool { return len(r.keys()) == 1 }, 20*time.Second, 5*time.Millisecond)
	// NATS sends a message once, to whoever is connected then.
	require.Eventually(t, func() bool {
		r.forge(oldest, "n2")
		for end := time.Now().Add(4 * time.Second); time.Now().Before(end) && r.nodes[2].Refused() == 0; time.Sleep(time.Millisecond) {
		}
		return r.nodes[2].Refused() == 1
	}, 20*time.Second, time.Millisecond, "its transition is over")
	require.True(t, r.nodes[2].holds(r.port))
	r.nodes[2].forged = 1
	back = r.follow("n4", node.Options{Trust: first(), State: state}, url)
	r.write()
	r.settled()
	back.stop()
	r.nodes = r.nodes[:4]
	var untrusted *node.UntrustedKeyError
	err = node.NewFollower(url, "n5", node.Options{Trust: first(), From: new(policy.EventID), MinWait: time.Millisecond, MaxWait: time.Millisecond}).Run(t.Context(), func(node.Event) error { return nil })
	require.ErrorAs(t, err, &untrusted, "it was away for the whole transition, and nobody vouches for the key")
	require.Eventually(t, func() bool {
		left, err := filepath.Glob(filepath.Join(datadir.Dir(dir).Keys(), "*"))
		return err == nil && len(left) == 0
	}, 20*time.Second, time.Millisecond, "nor is it kept")

	for range 5 {
		r.write()
	}
	r.rotate(time.Hour)
	r.restart()
	for range 10 {
		r.write()
	}
	r.settled()
	r.restart()
	r.write()
	r.settled()
	require.Len(t, r.keys(), 2)
	current, err := artifact.LoadSigner(datadir.Dir(dir).SigningKey())
	require.NoError(t, err)
	require.Equal(t, r.keys()[0].KeyID, current.KeyID())
	info, err := os.Stat(datadir.Dir(dir).SigningKey())
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())
}

// newKeyFile writes a key as an operator makes one.
func newKeyFile(t *testing.T) (file string, s *artifact.Signer) {
	file = filepath.Join(t.TempDir(), "plane.pem")
	s, err := artifact.CreateSigner(file)
	require.NoError(t, err)
	return file, s
}

// Where keys are given, every worker must hold the new one before it signs: a
// rotation that one could not follow is refused, and a worker that comes
// without it does not start.
func TestWorkersRotateAKeyThatAllOfThemHold(t *testing.T) {
	e := startExternal(t, t.TempDir())
	first, old := newKeyFile(t)
	second, next := newKeyFile(t)
	worker := func(name, key, other string) Options {
		return Options{
			Name: name, HTTP: "127.0.0.1:0", Data: t.TempDir(), NATS: "nats://" + e.opt.Listen, SigningKey: key, NextSigningKey: other,
			Relaxed: true, leastTransition: time.Second, LeaseTTL: 2 * time.Second,
		}
	}
	at, _ := start(t, worker("w1", first, second))
	c := newClient(t, at)
	lacking := worker("w2", first, "")
	_, stop := start(t, lacking)
	refusal := func() (code, detail string) {
		var pr *client.Problem
		_, err := c.Keys.Rotate(t.Context(), time.Minute)
		require.ErrorAs(t, err, &pr)
		return pr.Code, pr.Detail
	}
	_, err := c.Keys.Rotate(t.Context(), time.Millisecond)
	require.ErrorContains(t, err, "1s to")
	require.Eventually(t, func() bool {
		all, err := c.Status(t.Context(), false)
		return err == nil && len(all.Workers) == 2
	}, 20*time.Second, time.Millisecond)
	code, detail := refusal()
	require.Equal(t, "next_key_missing", code)
	require.Contains(t, detail, "worker w2 does not hold the new key "+next.KeyID())
	stop()
	two, stop := start(t, worker("w2", second, first)) // which of the flags names which does not matter
	require.Eventually(t, func() bool {
		keys, err := c.Keys.Rotate(t.Context(), time.Minute)
		return err == nil && keys[0].KeyID == next.KeyID()
	}, 20*time.Second, 10*time.Millisecond)
	require.Eventually(t, func() bool {
		keys, err := newClient(t, two).Keys.List(t.Context())
		return err == nil && len(keys) == 2 && keys[0].KeyID == next.KeyID() && keys[1].KeyID == old.KeyID()
	}, 20*time.Second, 10*time.Millisecond, "the other worker follows the record")
	require.Len(t, rotations(t, at), 1, "both saw to it that the log has it")
	stop()
	var other *keyring.OtherKeyError
	_, err = Open(t.Context(), lacking)
	require.ErrorAs(t, err, &other)
	require.Contains(t, err.Error(), "the plane signs with key "+next.KeyID())
	late := worker("w3", second, "")
	_, err = Open(t.Context(), late)
	require.ErrorAs(t, err, &other, "it cannot tell nodes of the new key")
	require.Contains(t, err.Error(), "--next-signing-key")
	code, _ = refusal()
	require.Equal(t, "key_in_transition", code)
}

// A worker that runs and lacks the key that the record names ends: what it signed
// would be refused.
func TestAWorkerWithoutTheNewKeyEnds(t *testing.T) {
	file, s := newKeyFile(t)
	p, err := Open(t.Context(), Options{Data: t.TempDir(), HTTP: "127.0.0.1:0", NATSListen: "none", SigningKey: file, Relaxed: true})
	require.NoError(t, err)
	defer p.Close()
	ended := make(chan error, 1)
	go func() { ended <- p.Run(t.Context()) }()
	another, next := newKeyFile(t)
	_, err = p.holderOf(t, keyring.Files{Signing: file, Next: another}, p.stream).Rotate(t.Context(), keyring.Rotation{Transition: time.Hour, Others: nobodyElse})
	require.NoError(t, err)
	var other *keyring.OtherKeyError
	require.ErrorAs(t, <-ended, &other)
	require.Equal(t, next.KeyID(), other.Want)
	require.Equal(t, []string{s.KeyID()}, other.Have)
}
