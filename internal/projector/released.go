package projector

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/edictdev/edict/artifact"
	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/policy"
)

// Kinds of artifacts that a release may hold. The agent's leads the set: it
// says whom the node trusts from this set on.
const (
	kindAgent  = "agent"
	kindVertex = "vertex"
)

// ArtifactDocument is an artifact's text as it stands in a file, of what a
// release holds: files end with a newline, and an event's elements do not.
func ArtifactDocument(element string) []byte {
	return append(append(make([]byte, 0, len(element)+1), element...), '\n')
}

// released is a release made ready for the fold: everything that needs no
// state.
type released struct {
	rete    string
	version uint64
	parts   []releasedPart // the agent's first, then by name
	signers []policy.TrustedSigner
}

type releasedPart struct {
	artifactPart
	document []byte
	keyID    string
	// selfVerifyErr is the result of verifying the document with the key that the
	// set's own agent artifact lists for its signer. It counts only if that key is
	// trusted.
	selfVerifyErr error
}

// artifactPart is one artifact of a node.
type artifactPart struct {
	kind, name  string
	fingerprint compiler.Fingerprint // of the document
}

func (p artifactPart) compare(q artifactPart) int {
	return cmp.Or(strings.Compare(p.kind, q.kind), strings.Compare(p.name, q.name))
}

// suffix is what follows "artifact." in the part's subject.
func (p artifactPart) suffix() string { return p.kind + "." + p.name }

// ReteOf is the trust domain of a signer's SPIFFE ID: the rete it signs for. It is a part of
// subjects, where the node is of another rete, too.
func ReteOf(spiffe string) (string, bool) {
	rest, ok := strings.CutPrefix(spiffe, "spiffe://")
	rete, _, below := strings.Cut(rest, "/")
	return rete, ok && below && policy.ValidRete(rete)
}

// readReleased reads the documents of a release. The fault is every one that
// does not fit, with a pointer into the event.
func readReleased(ev policy.ArtifactReleased) (*released, *policy.DecodeError) {
	var faults policy.Violations
	note := func(pointer, format string, args ...any) {
		faults = append(faults, policy.Violation{Pointer: pointer, Code: policy.CodeInvalidArtifact, Detail: fmt.Sprintf(format, args...)})
	}
	r := &released{}
	envelopes := make([]artifact.Envelope, len(ev.Artifacts))
	for i, text := range ev.Artifacts {
		at := fmt.Sprintf("/artifacts/%d", i)
		e, err := artifact.Parse([]byte(text))
		if err == nil {
			_, err = e.SigningBytes()
		}
		if err != nil {
			note(at, "%v", err)
			continue
		}
		envelopes[i] = e
		partFaults(e, ev.Node, func(field, format string, args ...any) { note(at+"/"+field, format, args...) })
		doc := ArtifactDocument(text)
		r.parts = append(r.parts, releasedPart{
			artifactPart: artifactPart{e.Kind, e.Name, compiler.FingerprintOf(doc)}, document: doc, keyID: e.Signature.KeyID,
		})
	}
	if len(faults) == 0 {
		r.whole(ev, envelopes, note)
	}
	if len(faults) > 0 {
		return nil, &policy.DecodeError{Code: policy.Invalid, Violations: faults}
	}
	slices.SortFunc(r.parts, func(a, b releasedPart) int { return a.compare(b.artifactPart) })
	return r, nil
}

// partFaults judges one envelope by itself.
func partFaults(e artifact.Envelope, node policy.NodeID, note func(field, format string, args ...any)) {
	if e.Plane != artifact.PlaneMgmt {
		note("plane", "%.40q; artifacts that are released are of plane %s", e.Plane, artifact.PlaneMgmt)
	}
	if e.Node != string(node) {
		note("node", "it is for node %.80q, the release for %s", e.Node, node)
	}
	switch {
	case e.Kind != kindAgent && e.Kind != kindVertex:
		note("kind", "%.40q; want %s or %s", e.Kind, kindAgent, kindVertex)
	case e.Kind == kindAgent && e.Name != kindAgent:
		note("name", "%.80q; the artifact of kind %s has that name", e.Name, kindAgent)
	case !policy.ValidArtifactPart(e.Name):
		note("name", "%.80q is no DNS label", e.Name)
	}
	if e.Signature.Alg != artifact.AlgEd25519 {
		note("signature/alg", "%.40q; want %s", e.Signature.Alg, artifact.AlgEd25519)
	}
	if _, ok := ReteOf(e.Signature.KeyID); !ok {
		note("signature/key_id", "%.80q is no SPIFFE ID of a signer: spiffe://, the rete as labels of a-z, 0-9 and '-' with dots between them, and its path", e.Signature.KeyID)
	}
	if e.Version == 0 || e.Version > artifact.MaxInteger {
		note("version", "%d; versions are 1 to %d", e.Version, uint64(artifact.MaxInteger))
	}
}

// whole judges the set: one agent, no artifact twice, one version, one rete.
func (r *released) whole(ev policy.ArtifactReleased, envelopes []artifact.Envelope, note func(pointer, format string, args ...any)) {
	lead := slices.IndexFunc(envelopes, func(e artifact.Envelope) bool { return e.Kind == kindAgent })
	if lead < 0 {
		note("/artifacts", "there is none of kind %s, which says whom the node trusts", kindAgent)
		return
	}
	agent := envelopes[lead]
	r.rete, _ = ReteOf(agent.Signature.KeyID)
	r.version = agent.Version
	if ev.Rete != "" && ev.Rete != r.rete {
		note("/rete", "%s, but its agent's artifact is signed for rete %.80q", ev.Rete, r.rete)
	}
	seen := map[artifactPart]bool{}
	for i, e := range envelopes {
		at := fmt.Sprintf("/artifacts/%d", i)
		part := artifactPart{kind: e.Kind, name: e.Name}
		if seen[part] {
			note(at, "%s %s is there twice", e.Kind, e.Name)
		}
		seen[part] = true
		if e.Version != r.version {
			note(at+"/version", "%d beside %d of the agent's; a set has one version", e.Version, r.version)
		}
		if rete, _ := ReteOf(e.Signature.KeyID); rete != r.rete {
			note(at+"/signature/key_id", "signed for rete %.80q beside %s", rete, r.rete)
		}
	}
	var err error
	if r.signers, err = AuthorizedSigners(agent.Payload); err != nil {
		note(fmt.Sprintf("/artifacts/%d/payload", lead), "%v", err)
		return
	}
	for i, s := range slices.Concat(r.signers, ev.Trust) {
		list := fmt.Sprintf("/artifacts/%d/payload", lead)
		if i >= len(r.signers) {
			list = "/trust"
		}
		if rete, _ := ReteOf(s.SPIFFE); rete != r.rete {
			note(list, "signer %.200q is not of rete %s", s.SPIFFE, r.rete)
		}
	}
	r.selfVerify()
}

// selfVerify verifies every document with the keys that the set itself lists.
func (r *released) selfVerify() {
	trust := trustOf(r.signers)
	for i := range r.parts {
		_, r.parts[i].selfVerifyErr = trust.Open(r.parts[i].document)
	}
}

func trustOf(signers []policy.TrustedSigner) *artifact.TrustSet {
	t := artifact.NewTrustSet()
	for _, s := range signers {
		_ = t.Add(artifact.PlaneMgmt, s.SPIFFE, s.Key, time.Time{}) // keys have their size, or were refused
	}
	return t
}

// AuthorizedSigners are the signers that the payload of an agent artifact
// lists: at least one, each once, with a key each.
func AuthorizedSigners(payload []byte) ([]policy.TrustedSigner, error) {
	var p struct {
		Trust struct {
			Signers []artifact.PinSigner `json:"authorized_mgmt_signers"`
		} `json:"trust"`
	}
	if err := json.Unmarshal(payload, &p); err != nil {
		return nil, err
	}
	if len(p.Trust.Signers) == 0 {
		return nil, errors.New("trust.authorized_mgmt_signers is empty: no later release could be signed")
	}
	if len(p.Trust.Signers) > policy.MaxSigners {
		return nil, fmt.Errorf("trust.authorized_mgmt_signers lists %d signers; at most %d", len(p.Trust.Signers), policy.MaxSigners)
	}
	var out []policy.TrustedSigner
	for _, s := range p.Trust.Signers {
		if s.SPIFFE == "" || len(s.Key) != 32 {
			return nil, fmt.Errorf("trust.authorized_mgmt_signers: signer %.200q has no ed25519 key or no id", s.SPIFFE)
		}
		if keyOf(out, s.SPIFFE) != nil {
			return nil, fmt.Errorf("trust.authorized_mgmt_signers lists %.200q twice", s.SPIFFE)
		}
		out = append(out, policy.TrustedSigner{SPIFFE: s.SPIFFE, Key: s.Key})
	}
	slices.SortFunc(out, func(a, b policy.TrustedSigner) int { return strings.Compare(a.SPIFFE, b.SPIFFE) })
	return out, nil
}

// keyOf is the key of a signer; nil when it is not among them.
func keyOf(signers []policy.TrustedSigner, spiffe string) []byte {
	for _, s := range signers {
		if s.SPIFFE == spiffe {
			return s.Key
		}
	}
	return nil
}

// signedBy checks a document's signature against signers that are trusted.
func (r *released) signedBy(p *releasedPart, trusted []policy.TrustedSigner) error {
	key := keyOf(trusted, p.keyID)
	if key == nil {
		return artifact.ErrUnknownKey
	}
	if bytes.Equal(key, keyOf(r.signers, p.keyID)) {
		return p.selfVerifyErr
	}
	_, err := trustOf(trusted).Open(p.document)
	return err
}

// CheckRelease says what the fold would find wrong with the documents of a
// release, whatever was released before, and of which rete they are. The error is
// policy.Violations.
func CheckRelease(ev policy.ArtifactReleased) (rete string, err error) {
	r, fault := readReleased(ev)
	if fault != nil {
		return "", fault.Violations
	}
	return r.rete, nil
}

// SameRelease reports whether a release says what a node holds already.
func SameRelease(now ReleaseInfo, ev policy.ArtifactReleased) bool {
	if len(now.Artifacts) != len(ev.Artifacts) {
		return false
	}
	held := map[compiler.Fingerprint]bool{}
	for _, a := range now.Artifacts {
		held[a.Fingerprint] = true
	}
	return !slices.ContainsFunc(ev.Artifacts, func(text string) bool { return !held[compiler.FingerprintOf(ArtifactDocument(text))] })
}

// ReleasedArtifact is one artifact of a release in the log.
type ReleasedArtifact struct {
	ArtifactInfo
	Version  uint64
	Document []byte
}

// ReleasedArtifacts are the artifacts of a release that was applied, by kind and
// name, and their rete.
func ReleasedArtifacts(ev policy.ArtifactReleased) (rete string, all []ReleasedArtifact, err error) {
	r, fault := readReleased(ev)
	if fault != nil {
		return "", nil, fault
	}
	out := make([]ReleasedArtifact, len(r.parts))
	for i, p := range r.parts {
		out[i] = ReleasedArtifact{ArtifactInfo{p.kind, p.name, p.fingerprint}, r.version, p.document}
	}
	return r.rete, out, nil
}
