package artifact

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"

	strict "github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"github.com/edictdev/edict/policy"
)

// KindPolicy is the kind of an envelope that carries a PolicyPayload; its name
// is the policy id.
const KindPolicy = "policy"

// PolicyPayload has the rules of one policy for a node (docs/design.md#delivery).
// Rules "[]" means that the node has no rules of the policy any more.
type PolicyPayload struct {
	NodeID      policy.NodeID
	PolicyID    uuid.UUID
	RevisionID  uuid.UUID
	Fingerprint [sha256.Size]byte // of Rules as they were compiled; 44 characters of base64 in JSON
	Rules       json.RawMessage   // the compiled payload, verbatim
	// RulesOmitted counts the policy's rules that the node contract cannot express
	// and that Rules leaves out.
	RulesOmitted int
	// Resolved: the rules do not say by themselves what the node enforces; the node
	// takes its rules from its state.
	Resolved bool
}

// memberResolved is the member of a payload that has Resolved.
const memberResolved = `,"resolved":true`

// Append appends the payload as it travels: {"node_id","policy_id",
// "revision_id","fingerprint","rules","rules_omitted"?,"resolved"?}, rules verbatim, the
// last two only where they are not 0 and false. Ids and fingerprints need no escaping.
func (p PolicyPayload) Append(b []byte) []byte {
	b = append(append(b, `{"node_id":"`...), p.NodeID...)
	b = appendUUID(append(b, `","policy_id":"`...), p.PolicyID)
	b = appendUUID(append(b, `","revision_id":"`...), p.RevisionID)
	b = base64.StdEncoding.AppendEncode(append(b, `","fingerprint":"`...), p.Fingerprint[:])
	b = append(append(b, `","rules":`...), p.Rules...)
	if b = appendOmitted(b, p.RulesOmitted); p.Resolved {
		b = append(b, memberResolved...)
	}
	return append(b, '}')
}

// appendOmitted appends the member that follows the rules, in either form of a
// payload.
func appendOmitted(b []byte, n int) []byte {
	if n == 0 {
		return b
	}
	return strconv.AppendInt(append(b, `,"rules_omitted":`...), int64(n), 10)
}

func appendUUID(b []byte, id uuid.UUID) []byte {
	const size = 36
	b = append(b, make([]byte, size)...)
	text, _ := id.MarshalText() // never fails
	copy(b[len(b)-size:], text)
	return b
}

// ParsePolicyPayload reads what Append wrote. It is strict: every field but
// rules_omitted and resolved is required, none is unknown. Rules are a copy, as they stood.
func ParsePolicyPayload(doc []byte) (PolicyPayload, error) {
	var w struct {
		NodeID      string          `json:"node_id"`
		PolicyID    string          `json:"policy_id"`
		RevisionID  string          `json:"revision_id"`
		Fingerprint string          `json:"fingerprint"`
		Rules       json.RawMessage `json:"rules"`
		Omitted     int             `json:"rules_omitted"`
		Resolved    bool            `json:"resolved"`
	}
	if err := strict.Unmarshal(doc, &w, strict.RejectUnknownMembers(true)); err != nil {
		return PolicyPayload{}, fmt.Errorf("policy payload: %w", err)
	}
	p := PolicyPayload{Rules: bytes.Clone(w.Rules), RulesOmitted: w.Omitted, Resolved: w.Resolved}
	if w.Omitted < 0 {
		return PolicyPayload{}, fmt.Errorf("policy payload: rules_omitted is %d", w.Omitted)
	}
	var err error
	if p.NodeID, err = policy.ParseNodeID(w.NodeID); err != nil {
		return PolicyPayload{}, fmt.Errorf("policy payload: node_id: %w", err)
	}
	if p.PolicyID, err = uuid.Parse(w.PolicyID); err != nil {
		return PolicyPayload{}, fmt.Errorf("policy payload: policy_id: %w", err)
	}
	if p.RevisionID, err = uuid.Parse(w.RevisionID); err != nil {
		return PolicyPayload{}, fmt.Errorf("policy payload: revision_id: %w", err)
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(w.Fingerprint)
	if err != nil || len(raw) != len(p.Fingerprint) {
		return PolicyPayload{}, fmt.Errorf("policy payload: fingerprint %.60q is not the base64 of 32 bytes", w.Fingerprint)
	}
	copy(p.Fingerprint[:], raw)
	if len(p.Rules) == 0 || p.Rules[0] != '[' {
		return PolicyPayload{}, fmt.Errorf("policy payload: rules are not an array")
	}
	return p, nil
}

// Verify checks that the rules are those of the fingerprint. White space does
// not count: a notice may have gained some on its way.
func (p PolicyPayload) Verify() error {
	var compact bytes.Buffer
	if err := json.Compact(&compact, p.Rules); err != nil {
		return fmt.Errorf("policy payload: rules: %w", err)
	}
	if got := sha256.Sum256(compact.Bytes()); got != p.Fingerprint {
		return fmt.Errorf("policy payload: the rules hash to %s, not to the fingerprint %s",
			base64.StdEncoding.EncodeToString(got[:]), base64.StdEncoding.EncodeToString(p.Fingerprint[:]))
	}
	return nil
}
