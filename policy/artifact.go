package policy

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"strings"
)

// MaxArtifacts is how many artifacts a node's set has at most.
const MaxArtifacts = 256

// MaxSigners is how many signers one event can pin.
const MaxSigners = 64

// TrustedSigner is a signer of plane "mgmt".
type TrustedSigner struct {
	SPIFFE string // the key id of its signatures
	Key    []byte // raw ed25519 public key, 32 bytes
}

// ValidArtifactPart reports whether s can be the kind or the name of an
// artifact: a DNS label, since both are tokens of a subject.
func ValidArtifactPart(s string) bool { return validNodeID([]byte(s)) }

// ValidRete reports whether s can be the name of a rete: DNS labels with dots between
// them, since it is a part of a subject.
func ValidRete(s string) bool {
	const most = 255
	if len(s) > most {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if !ValidArtifactPart(label) {
			return false
		}
	}
	return true
}

// readRete reads the name of a rete.
func readRete(r *reader) string {
	b, ok := r.text("a string")
	if ok && !ValidRete(string(b)) {
		r.note("", CodeInvalidArtifact, fmt.Sprintf("%.80q is no name of a rete; use labels of a-z, 0-9 and '-' with dots between them", b))
		return ""
	}
	return string(b)
}

// readArtifactPart reads a kind or a name.
func readArtifactPart(r *reader) string {
	b, ok := r.text("a string")
	if !ok {
		return ""
	}
	if !validNodeID(b) {
		r.note("", CodeInvalidArtifactName, fmt.Sprintf("%.80q is no kind or name of an artifact; use 1 to 63 of a-z, 0-9 and '-', neither first nor last a '-'", b))
		return ""
	}
	return string(b)
}

// readArtifacts reads envelopes as they stand.
func readArtifacts(r *reader) (docs []string) {
	n := 0
	ok := r.array("an array of artifacts", func(int) {
		if !r.expect('{', "an artifact, which is an object") {
			return
		}
		v, ok := r.value()
		if !ok {
			return
		}
		if n++; n <= MaxArtifacts {
			docs = append(docs, string(v))
		}
	})
	switch {
	case !ok:
	case n == 0:
		r.note("", CodeArtifactsOutOfRange, "a release has at least one artifact; to take artifacts away, withdraw them")
	case n > MaxArtifacts:
		r.note("", CodeArtifactsOutOfRange, tooMany("artifacts", n, MaxArtifacts))
	}
	return docs
}

// readTrust reads the signers to pin.
func readTrust(r *reader) (signers []TrustedSigner) {
	fields := []string{"spiffe_id", "pubkey"}
	ok := r.array("an array of signers", func(int) {
		var s TrustedSigner
		var seen uint
		whole := r.object("a signer", func(name []byte) bool {
			seen |= fieldBit(fields, name)
			switch string(name) {
			case "spiffe_id":
				s.SPIFFE = r.line(MaxOwner, true)
			case "pubkey":
				s.Key = readPublicKey(r)
			default:
				return false
			}
			return true
		})
		if whole {
			r.require(3, seen, fields)
		}
		signers = append(signers, s)
	})
	if ok && (len(signers) == 0 || len(signers) > MaxSigners) {
		r.note("", CodeSignersOutOfRange, fmt.Sprintf("%d signers; a pin names 1 to %d", len(signers), MaxSigners))
	}
	return signers
}

func readPublicKey(r *reader) []byte {
	b, ok := r.text("a string")
	if !ok {
		return nil
	}
	key, err := base64.StdEncoding.Strict().DecodeString(string(b))
	if err != nil || len(key) != ed25519.PublicKeySize {
		r.note("", CodeInvalidPublicKey, "want the base64 of a raw ed25519 public key, 44 characters")
		return nil
	}
	return key
}

// Fields of a line of a release, by bit.
const (
	releaseNode = 1 << iota
	releaseArtifacts
	releaseTrust
)

var releaseFields = []string{"node_id", "artifacts", "trust"}

// DecodeReleaseLine reads one line of a release: {"node_id","artifacts",
// "trust"?}, where artifacts are files as texts. Those are in the event without
// the newline that must end each. The error is Violations; the node is there
// when it could be read.
func DecodeReleaseLine(line []byte) (e ArtifactReleased, err error) {
	var seen uint
	faults := read(line, func(r *reader) {
		ok := r.object("a release", func(name []byte) bool {
			bit := fieldBit(releaseFields, name)
			seen |= bit
			switch bit {
			case releaseNode:
				e.Node = readNodeID(r)
			case releaseArtifacts:
				e.Artifacts = readFiles(r)
			case releaseTrust:
				e.Trust = readTrust(r)
			default:
				return false
			}
			return true
		})
		if ok {
			r.require(releaseNode|releaseArtifacts, seen, releaseFields)
		}
	})
	return e, faults.orNil()
}

// readFiles reads artifacts as texts of files.
func readFiles(r *reader) (docs []string) {
	ok := r.array("an array of files", func(int) {
		b, ok := r.text("the text of a file")
		if !ok {
			return
		}
		doc, ends := bytes.CutSuffix(b, []byte{'\n'})
		if !ends || len(doc) < 2 || doc[0] != '{' || doc[len(doc)-1] != '}' {
			r.note("", CodeInvalidArtifact, "an artifact is one JSON object and a newline, as retectl compile writes it: compile again")
		}
		docs = append(docs, string(doc))
	})
	if ok && (len(docs) == 0 || len(docs) > MaxArtifacts) {
		r.note("", CodeArtifactsOutOfRange, fmt.Sprintf("%d artifacts; a release has 1 to %d", len(docs), MaxArtifacts))
	}
	return docs
}
