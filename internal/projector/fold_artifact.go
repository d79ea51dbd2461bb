package projector

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/google/uuid"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/policy"
)

// rete is what the fold knows of a rete of a project: whose signatures count.
// It is pinned by the first release, and forgotten with its last artifact.
type rete struct {
	project *project
	name    string
	signers []policy.TrustedSigner // by SPIFFE ID
	version uint64                 // of the set that gave them; 0: the pin did
	nodes   int                    // that hold artifacts of it
}

// artifactSet is what the fold knows of a node's artifacts, for ever: after the
// last is withdrawn the version still says what is not newer.
type artifactSet struct {
	rete    *rete  // nil while there are no parts
	version uint64 // the highest released
	seq     uint64 // of the event that gave the present parts
	time    int64  // unix ns, the log's
	event   uuid.UUID
	seen    uint64     // a small filter over the ids of all events
	parts   []heldPart // by kind and name
}

// heldPart is an artifact of a node, and what its event id names: the later of
// the events that gave the node the artifact and its present labels, and the
// place that it had in the set which that event left.
type heldPart struct {
	artifactPart
	since moment
	place int
}

// judgeArtifacts settles the cases that do not depend on what an artifact
// event says.
func (j *judge) judgeArtifacts(id policy.NodeID, project, event uuid.UUID) (n *node, v Verdict, settled bool) {
	if n = j.nodes[id]; n == nil {
		return nil, Verdict{}, false
	}
	switch {
	case n.project.id != project:
		return n, reject(CodeNodeIDTaken, "node id %s belongs to another project: choose another", id), true
	case n.artifacts == nil:
		return n, Verdict{}, false
	case n.artifacts.event == event:
		return n, duplicate, true
	case j.appliedToNode(n.ordinal, n.artifacts.seen, event):
		return n, reject(CodeStaleEvent, "event %s about the artifacts of node %s was applied before and a newer one followed: publish a new event", event, id), true
	}
	return n, Verdict{}, false
}

// judgeRelease accepts a newer set whose signatures count. r is what the event's
// documents say, nil when they were not read yet; pinned is the rete, nil when this
// event pins it.
func (j *judge) judgeRelease(ev policy.ArtifactReleased, r *released, fault *policy.DecodeError) (n *node, pinned *rete, v Verdict) {
	n, v, settled := j.judgeArtifacts(ev.Node, ev.Project, ev.ID)
	if settled {
		return n, nil, v
	}
	if r == nil && fault == nil {
		r, fault = readReleased(ev)
	}
	if fault != nil {
		return n, nil, invalid(fault)
	}
	if n != nil && n.artifacts != nil {
		if v, stays := newerThan(n.artifacts, r, ev.Node); stays {
			return n, nil, v
		}
		if held := n.artifacts.rete; held != nil && held.name != r.rete {
			return n, nil, reject(CodeSignerNotTrusted, "node %s holds artifacts of rete %s, for which a signer of rete %s does not speak: withdraw them first", ev.Node, held.name, r.rete)
		}
	}
	pinned = j.reteOf(ev.Project, r.rete)
	trusted := ev.Trust
	if pinned != nil {
		trusted = pinned.signers
	}
	if v, bad := untrusted(r, trusted); bad {
		return n, nil, v
	}
	return n, pinned, Verdict{}
}

func (f *fold) artifactReleased(ev policy.ArtifactReleased, e *entry) Verdict {
	n, pinned, v := f.judgeRelease(ev, e.released, e.fault)
	if !v.accepted() {
		return v
	}
	proj := f.project(ev.Project)
	if n == nil {
		n = f.claim(ev.Node, proj)
	}
	f.applyRelease(n, f.pin(proj, pinned, ev, e.released), ev.ID, e.released)
	return Verdict{}
}

// newerThan refuses a version that is not newer. The very set that the node has
// is a duplicate.
func newerThan(s *artifactSet, r *released, id policy.NodeID) (v Verdict, stays bool) {
	switch {
	case r.version > s.version:
		return Verdict{}, false
	case r.version == s.version && slices.EqualFunc(s.parts, r.parts, func(a heldPart, b releasedPart) bool { return a.artifactPart == b.artifactPart }):
		return duplicate, true
	}
	return reject(CodeVersionNotNewer, "version %d is not above %d, which node %s was given: compile again with a higher --version", r.version, s.version, id), true
}

// untrusted applies reference 5A: the agent's artifact is signed by a signer
// that was trusted before, all others by one that it authorizes.
func untrusted(r *released, trusted []policy.TrustedSigner) (Verdict, bool) {
	if len(trusted) == 0 {
		return reject(CodeSignerNotTrusted, "no signer is pinned for rete %s: pin the first with edict release --trust", r.rete), true
	}
	for i := range r.parts {
		p := &r.parts[i]
		signers, who := trusted, "pinned for rete "+r.rete
		if p.kind != kindAgent {
			signers, who = r.signers, "authorized by the agent artifact"
		}
		switch err := r.signedBy(p, signers); {
		case errors.Is(err, artifact.ErrUnknownKey):
			return reject(CodeSignerNotTrusted, "%s %s is signed by %.200s, which is not %s: %s", p.kind, p.name, p.keyID, who, joinSigners(signers)), true
		case err != nil:
			return reject(CodeBadSignature, "%s %s: %v", p.kind, p.name, err), true
		}
	}
	return Verdict{}, false
}

// joinSigners lists signers for a message.
func joinSigners(signers []policy.TrustedSigner) string {
	text := ""
	for i, s := range signers {
		if i > 0 {
			text += ", "
		}
		if len(text) > 200 {
			return text + "…"
		}
		text += s.SPIFFE
	}
	return text
}

// claim makes a node that is not registered its project's.
func (f *fold) claim(id policy.NodeID, p *project) *node {
	n := f.newNode(id, p)
	f.key, f.value = appendNodeKey(f.key[:0], p.id, id), nodeRecord{ordinal: n.ordinal}.append(f.value[:0])
	f.set(f.key, f.value)
	return n
}

// pin makes the signers of a set those of its rete, unless a newer set gave it
// its signers.
func (f *fold) pin(proj *project, t *rete, ev policy.ArtifactReleased, r *released) *rete {
	if t == nil {
		t = &rete{project: proj, name: r.rete, signers: ev.Trust}
		proj.retes[t.name] = t
	}
	if r.version >= t.version {
		t.signers, t.version = r.signers, r.version
	}
	f.storeRete(t)
	return t
}

// applyRelease gives a node its new set, and records what that changes.
func (f *fold) applyRelease(n *node, t *rete, event uuid.UUID, r *released) {
	s := n.artifacts
	if s == nil {
		s = &artifactSet{}
		n.artifacts = s
	}
	if s.rete == nil {
		s.rete = t
		t.nodes++
	}
	old := s.parts
	s.parts = make([]heldPart, len(r.parts))
	for i := range r.parts {
		p := &r.parts[i]
		s.parts[i] = heldPart{p.artifactPart, f.moment(), i}
		f.storePayload(p.fingerprint, p.document)
	}
	s.version = r.version
	f.key = appendReleaseKey(f.key[:0], n.project.id, n.id, r.version)
	f.value = appendU64(f.value[:0], f.seq)
	f.set(f.key, f.value)
	f.recordDifference(n, old)
	f.rememberArtifacts(n, event)
}

// Where the artifact that is withdrawn is not among those of its node.
const (
	nothingHeld = -1 // the event is remembered: met again after a release, it must be known as an old one
	notAsked    = -2 // the event was decided without asking, and changes nothing
)

// judgeWithdrawal accepts the withdrawal of an artifact that its node holds, at
// that place of its set.
func (j *judge) judgeWithdrawal(ev policy.ArtifactWithdrawn, fault *policy.DecodeError) (n *node, at int, v Verdict) {
	n, v, settled := j.judgeArtifacts(ev.Node, ev.Project, ev.ID)
	switch {
	case settled:
		return n, notAsked, v
	case fault != nil:
		return n, notAsked, invalid(fault)
	case n == nil || n.artifacts == nil:
		return n, nothingHeld, duplicate
	}
	at = slices.IndexFunc(n.artifacts.parts, func(p heldPart) bool { return p.kind == ev.Kind && p.name == ev.Name })
	if at < 0 {
		return n, nothingHeld, duplicate
	}
	return n, at, Verdict{}
}

func (f *fold) artifactWithdrawn(ev policy.ArtifactWithdrawn, fault *policy.DecodeError) Verdict {
	n, at, v := f.judgeWithdrawal(ev, fault)
	if at == notAsked {
		return v
	}
	if n == nil {
		n = f.claim(ev.Node, f.project(ev.Project))
	}
	if n.artifacts == nil {
		n.artifacts = &artifactSet{}
	}
	if s := n.artifacts; at >= 0 {
		f.recordArtifact(n, s.parts[at].artifactPart, at, false)
		f.release(s.parts[at].fingerprint)
		s.parts = slices.Delete(s.parts, at, at+1)
		if len(s.parts) == 0 {
			f.detachTrust(s)
		}
	}
	f.rememberArtifacts(n, ev.ID)
	return v
}

// detachTrust takes a node without artifacts off its rete, and ends the rete with
// its last: who lost every key withdraws everything, and pins anew.
func (f *fold) detachTrust(s *artifactSet) {
	t := s.rete
	s.rete = nil
	if t.nodes--; t.nodes > 0 {
		return
	}
	delete(t.project.retes, t.name)
	f.key = appendReteKey(f.key[:0], t.project.id, t.name)
	f.delete(f.key)
}

// recordDifference records, part by part, what a node has now and had not, and releases the
// documents that it had. A newer set has another version in each document.
func (f *fold) recordDifference(n *node, old []heldPart) {
	now := n.artifacts.parts
	for i, j := 0, 0; i < len(old) || j < len(now); {
		c := -1
		switch {
		case i == len(old):
			c = 1
		case j < len(now):
			c = old[i].compare(now[j].artifactPart)
		}
		if c < 0 {
			f.recordArtifact(n, old[i].artifactPart, i, false)
		} else {
			f.recordArtifact(n, now[j].artifactPart, j, true)
			j++
		}
		if c <= 0 {
			f.release(old[i].fingerprint)
			i++
		}
	}
}

// renewArtifacts gives the artifacts of a node with new labels ids of this event.
func (f *fold) renewArtifacts(n *node) {
	if n.artifacts == nil || len(n.artifacts.parts) == 0 {
		return
	}
	for i := range n.artifacts.parts {
		p := &n.artifacts.parts[i]
		p.since, p.place = f.moment(), i
	}
	f.storeArtifacts(n)
}

// recordArtifacts records that a node which was registered has its artifacts now, or
// that one which was removed lost them.
func (f *fold) recordArtifacts(n *node, has bool) {
	if n.artifacts == nil {
		return
	}
	for i, p := range n.artifacts.parts {
		f.recordArtifact(n, p.artifactPart, i, has)
	}
}

// rememberArtifacts makes the event the one that gave the node its artifacts.
func (f *fold) rememberArtifacts(n *node, event uuid.UUID) {
	s := n.artifacts
	s.seq, s.time, s.event = f.seq, f.time, event
	s.seen |= eventBits(event)
	f.noteApplied(toNode(n.ordinal, event))
	f.storeArtifacts(n)
}

func (f *fold) storeArtifacts(n *node) {
	f.key, f.value = appendArtifactsKey(f.key[:0], n.project.id, n.id), n.artifacts.append(f.value[:0])
	f.set(f.key, f.value)
}

func (s *artifactSet) append(b []byte) []byte {
	name := ""
	if s.rete != nil {
		name = s.rete.name
	}
	b = appendU64(appendU64(appendU64(b, s.version), s.seq), uint64(s.time))
	b = appendText(appendU64(append(b, s.event[:]...), s.seen), name)
	b = binary.AppendUvarint(b, uint64(len(s.parts)))
	for _, p := range s.parts {
		b = append(appendText(appendText(b, p.kind), p.name), p.fingerprint[:]...)
		b = binary.BigEndian.AppendUint16(p.since.append(b), uint16(p.place))
	}
	return b
}

// readArtifacts reads what append wrote; the rete is for the caller to find.
func readArtifacts(b []byte) (s artifactSet, reteName string, err error) {
	r := reader{b: b}
	s.version, s.seq, s.time = r.u64(), r.u64(), r.time()
	s.event, s.seen, reteName = r.id(), r.u64(), r.text()
	for range min(r.uvarint(), policy.MaxArtifacts) {
		p := heldPart{artifactPart: artifactPart{r.text(), r.text(), compiler.Fingerprint(r.hash())}, since: r.moment()}
		p.place = int(binary.BigEndian.Uint16(r.take(2)))
		s.parts = append(s.parts, p)
	}
	return s, reteName, r.err
}

func (f *fold) storeRete(t *rete) {
	f.key, f.value = appendReteKey(f.key[:0], t.project.id, t.name), t.append(f.value[:0])
	f.set(f.key, f.value)
}

func (t *rete) append(b []byte) []byte {
	b = binary.AppendUvarint(appendU64(b, t.version), uint64(len(t.signers)))
	for _, s := range t.signers {
		b = appendText(appendText(b, s.SPIFFE), s.Key)
	}
	return b
}

func readRete(b []byte) (t rete, err error) {
	r := reader{b: b}
	t.version = r.u64()
	for range min(r.uvarint(), policy.MaxSigners) {
		t.signers = append(t.signers, policy.TrustedSigner{SPIFFE: r.text(), Key: slices.Clone(r.bytes())})
	}
	return t, r.err
}

// retes reads the pinned signers from the store.
func (l *loader) retes() error {
	return l.scan(keyRete, func(k, v []byte) error {
		t, err := readRete(v)
		if err != nil {
			return err
		}
		t.project, t.name = l.state.project(uuid.UUID(k[:16])), string(k[16:])
		t.project.retes[t.name] = &t
		return nil
	})
}

// artifacts reads what nodes hold.
func (l *loader) artifacts() error {
	return l.scan(keyArtifacts, func(k, v []byte) error {
		s, name, err := readArtifacts(v)
		n := l.state.nodes[policy.NodeID(k[16:])]
		if err != nil || n == nil {
			return errRecord
		}
		if name != "" {
			if s.rete = n.project.retes[name]; s.rete == nil {
				return errRecord
			}
			s.rete.nodes++
		}
		for _, p := range s.parts {
			l.state.payloads[p.fingerprint]++
		}
		n.artifacts = &s
		return nil
	})
}
