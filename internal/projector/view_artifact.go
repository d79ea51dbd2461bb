package projector

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/policy"
)

// ArtifactInfo is one artifact that a node holds.
type ArtifactInfo struct {
	Kind, Name  string
	Fingerprint compiler.Fingerprint // of the document
}

// ReleaseInfo is a node's set of artifacts of one rete.
type ReleaseInfo struct {
	Node       policy.NodeID
	Rete       string // "" when all were withdrawn
	Further    bool   // beside those of another rete: events and messages say of which it is
	Version    uint64 // the highest released
	Seq        uint64 // log sequence of the event that gave the present set
	Time       time.Time
	Registered bool           // the node exists now, and is sent its artifacts
	Artifacts  []ArtifactInfo // by kind and name
}

func (n *node) release(s *artifactSet) ReleaseInfo {
	r := ReleaseInfo{
		Node: n.id, Rete: s.reteName(), Further: s.beside != "", Version: s.version, Seq: s.seq, Time: logTime(s.time), Registered: n.identity != nil,
	}
	for _, p := range s.parts {
		r.Artifacts = append(r.Artifacts, ArtifactInfo{p.kind, p.name, p.fingerprint})
	}
	return r
}

// Releases is what a view shows of the artifacts that projects released for their
// nodes. It is valid as long as the view is.
type Releases struct{ v *View }

// Releases looks at the artifacts of nodes.
func (v *View) Releases() Releases { return Releases{v} }

// Held is what a node that exists now holds of each of its retes, without the
// documents; ok is false when there is no such node.
func (r Releases) Held(id policy.NodeID) (held []ReleaseInfo, ok bool) {
	n := r.v.m.state.nodes[id]
	if n == nil || n.identity == nil {
		return nil, false
	}
	return n.releases(), true
}

func (n *node) releases() (all []ReleaseInfo) {
	for _, s := range n.sets() {
		all = append(all, n.release(s))
	}
	return all
}

// Of is what a project released for a node, registered or not, by rete: the node's
// first, then the others by name. There is nothing when it released nothing; taken
// is set when the node is another project's.
func (r Releases) Of(project uuid.UUID, id policy.NodeID) (released []ReleaseInfo, taken bool) {
	n := r.v.m.state.nodes[id]
	switch {
	case n == nil:
		return nil, false
	case n.project.id != project:
		return nil, true
	}
	return n.releases(), false
}

// Gave is the place in the log of the release of that id, if what a node holds is
// from it; 0: it is not.
func (r Releases) Gave(project uuid.UUID, id policy.NodeID, event uuid.UUID) uint64 {
	n := r.v.m.state.nodes[id]
	if n == nil || n.project.id != project {
		return 0
	}
	for _, s := range n.sets() {
		if s.event == event {
			return s.seq
		}
	}
	return 0
}

// Joins reports whether an event about artifacts of that rete must say so, because
// the node is of another one, too.
func (r Releases) Joins(id policy.NodeID, rete string) bool {
	n := r.v.m.state.nodes[id]
	return n != nil && n.artifacts != nil && n.artifacts.rete != nil && n.artifacts.rete.name != rete
}

// Document is the text of an artifact that a node holds.
func (r Releases) Document(fp compiler.Fingerprint) ([]byte, error) { return r.v.Payload(fp) }

// ReleasePlace is a place in a list of releases: behind a node's first rete, or
// behind the one that is named.
type ReleasePlace struct {
	Node    policy.NodeID
	Further string
}

// List is what a project's nodes hold, by node id and rete: at most limit, behind a
// place. The zero place is before all.
func (r Releases) List(project uuid.UUID, above ReleasePlace, limit int) ([]ReleaseInfo, error) {
	all := appendArtifactsKey(nil, project, "", "")
	start := all
	if above.Node != "" {
		start = append(appendArtifactsKey(nil, project, above.Node, above.Further), 0)
	}
	it, err := r.v.m.db.NewIter(&pebble.IterOptions{LowerBound: start, UpperBound: after(all)})
	if err != nil {
		return nil, fmt.Errorf("list releases: %w", err)
	}
	defer it.Close()
	var out []ReleaseInfo
	for ok := it.First(); ok && len(out) < limit; ok = it.Next() {
		id, beside := cutBeside(it.Key()[17:])
		n := r.v.m.state.nodes[id]
		if n == nil || n.artifacts == nil {
			return nil, errRecord
		}
		s := n.artifacts
		if at, ok := n.besideOf(beside); ok {
			s = s.others[at]
		}
		if len(s.parts) > 0 {
			out = append(out, n.release(s))
		}
	}
	return out, it.Error()
}

// At is the place in the log of the newest release for a node whose version is at
// most version: of the node's first rete, or of one beside it.
func (r Releases) At(project uuid.UUID, id policy.NodeID, beside string, version uint64) (seq uint64, ok bool, err error) {
	it, err := r.v.m.db.NewIter(&pebble.IterOptions{
		LowerBound: appendReleaseKey(nil, project, id, beside, 0), UpperBound: append(appendReleaseKey(nil, project, id, beside, version), 0),
	})
	if err != nil {
		return 0, false, fmt.Errorf("find a release: %w", err)
	}
	defer it.Close()
	if !it.Last() {
		return 0, false, it.Error()
	}
	if len(it.Value()) != 8 {
		return 0, false, errRecord
	}
	return binary.BigEndian.Uint64(it.Value()), true, nil
}

// ReteInfo is whose signatures count for a rete.
type ReteInfo struct {
	Name    string
	Version uint64                 // of the set that gave the signers
	Nodes   int                    // that hold artifacts of it
	Signers []policy.TrustedSigner // by SPIFFE ID
}

// Retes lists the retes of a project by name.
func (r Releases) Retes(project uuid.UUID) []ReteInfo {
	p := r.v.m.state.projects[project]
	if p == nil {
		return nil
	}
	var out []ReteInfo
	for _, name := range slices.Sorted(maps.Keys(p.retes)) {
		t := p.retes[name]
		out = append(out, ReteInfo{t.name, t.version, t.nodes, t.signers})
	}
	return out
}

func reteFact(k, v []byte) (Fact, error) {
	t, err := readRete(v)
	signers := make([]string, len(t.signers))
	for i, s := range t.signers {
		signers[i] = s.SPIFFE + "=" + base64.StdEncoding.EncodeToString(s.Key)
	}
	return Fact{FactRete, uuid.UUID(k[:16]).String() + "/" + string(k[16:]), map[string]string{
		"version": strconv.FormatUint(t.version, 10), "signers": strings.Join(signers, ","),
	}}, err
}

func artifactsFact(k, v []byte) (Fact, error) {
	s, name, err := readArtifacts(v)
	values := map[string]string{
		"rete": name, "version": strconv.FormatUint(s.version, 10), "seq": strconv.FormatUint(s.seq, 10),
		"event": s.event.String(), "released_at": stamp(s.time), "seen": strconv.FormatUint(s.seen, 16),
	}
	for _, p := range s.parts {
		values[p.suffix()] = fmt.Sprintf("%s since %s at %d", p.fingerprint, p.since, p.place)
	}
	return Fact{FactArtifacts, uuid.UUID(k[:16]).String() + "/" + spaced(k[16:]), values}, err
}

// spaced is a node, and the rete beside its first, as the key of a fact has them.
func spaced(key []byte) string { return strings.ReplaceAll(string(key), "\x00", " of ") }

func releaseFact(k, v []byte) (Fact, error) {
	at := len(k) - 9 // a zero and the version
	if at < 16 || len(v) != 8 {
		return Fact{}, errRecord
	}
	return Fact{
		FactRelease, fmt.Sprintf("%s/%s %020d", uuid.UUID(k[:16]), spaced(k[16:at]), binary.BigEndian.Uint64(k[at+1:])),
		map[string]string{"seq": strconv.FormatUint(binary.BigEndian.Uint64(v), 10)},
	}, nil
}
