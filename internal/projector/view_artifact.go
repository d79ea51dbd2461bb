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

// ReleaseInfo is a node's set of artifacts.
type ReleaseInfo struct {
	Node       policy.NodeID
	Rete       string // "" when all were withdrawn
	Version    uint64 // the highest released
	Seq        uint64 // log sequence of the event that gave the present set
	Time       time.Time
	Registered bool           // the node exists now, and is sent its artifacts
	Artifacts  []ArtifactInfo // by kind and name
}

func (n *node) release() ReleaseInfo {
	s := n.artifacts
	r := ReleaseInfo{Node: n.id, Version: s.version, Seq: s.seq, Time: logTime(s.time), Registered: n.identity != nil}
	if s.rete != nil {
		r.Rete = s.rete.name
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

// Held is what a node that exists now holds, without the documents; ok is false
// when there is no such node.
func (r Releases) Held(id policy.NodeID) (held ReleaseInfo, ok bool) {
	n := r.v.m.state.nodes[id]
	if n == nil || n.identity == nil {
		return held, false
	}
	if n.artifacts == nil {
		return ReleaseInfo{Node: id, Registered: true}, true
	}
	return n.release(), true
}

// Of is what a project released for a node, registered or not. ok is false
// when it released nothing; taken when the node is another project's.
func (r Releases) Of(project uuid.UUID, id policy.NodeID) (released ReleaseInfo, ok, taken bool) {
	n := r.v.m.state.nodes[id]
	switch {
	case n == nil:
		return released, false, false
	case n.project.id != project:
		return released, false, true
	case n.artifacts == nil:
		return released, false, false
	}
	return n.release(), true, false
}

// Document is the text of an artifact that a node holds.
func (r Releases) Document(fp compiler.Fingerprint) ([]byte, error) { return r.v.Payload(fp) }

// List is what a project's nodes hold, by node id: at most limit nodes whose id is
// greater than above.
func (r Releases) List(project uuid.UUID, above policy.NodeID, limit int) ([]ReleaseInfo, error) {
	all := appendArtifactsKey(nil, project, "")
	start := all
	if above != "" {
		start = append(appendArtifactsKey(nil, project, above), 0)
	}
	it, err := r.v.m.db.NewIter(&pebble.IterOptions{LowerBound: start, UpperBound: after(all)})
	if err != nil {
		return nil, fmt.Errorf("list releases: %w", err)
	}
	defer it.Close()
	var out []ReleaseInfo
	for ok := it.First(); ok && len(out) < limit; ok = it.Next() {
		n := r.v.m.state.nodes[policy.NodeID(it.Key()[17:])]
		if n == nil || n.artifacts == nil {
			return nil, errRecord
		}
		if len(n.artifacts.parts) > 0 {
			out = append(out, n.release())
		}
	}
	return out, it.Error()
}

// At is the place in the log of the newest release for a node whose version is at
// most version.
func (r Releases) At(project uuid.UUID, id policy.NodeID, version uint64) (seq uint64, ok bool, err error) {
	it, err := r.v.m.db.NewIter(&pebble.IterOptions{
		LowerBound: appendReleaseKey(nil, project, id, 0), UpperBound: append(appendReleaseKey(nil, project, id, version), 0),
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
	return Fact{FactArtifacts, uuid.UUID(k[:16]).String() + "/" + string(k[16:]), values}, err
}

func releaseFact(k, v []byte) (Fact, error) {
	at := len(k) - 9 // a zero and the version
	if at < 16 || len(v) != 8 {
		return Fact{}, errRecord
	}
	return Fact{
		FactRelease, fmt.Sprintf("%s/%s %020d", uuid.UUID(k[:16]), k[16:at], binary.BigEndian.Uint64(k[at+1:])),
		map[string]string{"seq": strconv.FormatUint(binary.BigEndian.Uint64(v), 10)},
	}, nil
}
