package policy

import "strings"

// Violation is one fault of an input: where it stands (a JSON pointer), a
// stable code, and what to do about it.
type Violation struct {
	Pointer string `json:"pointer"`
	Code    string `json:"code"`
	Detail  string `json:"detail"`
}

// Violations are all faults of one input, in the order they were found.
type Violations []Violation

// Error lists every fault on a line of its own.
func (v Violations) Error() string {
	lines := make([]string, len(v))
	for i, x := range v {
		if lines[i] = x.Detail + " (" + x.Code + ")"; x.Pointer != "" {
			lines[i] = x.Pointer + ": " + lines[i]
		}
	}
	return strings.Join(lines, "\n")
}

// Shape is the first fault in the shape of the document, if there is one: the
// input is then malformed (HTTP 400, fold code undecodable) rather than in
// conflict with a rule of the domain (HTTP 422, fold code invalid).
func (v Violations) Shape() (Violation, bool) {
	for _, x := range v {
		if ofShape(x.Code) {
			return x, true
		}
	}
	return Violation{}, false
}

func ofShape(code string) bool {
	switch code {
	case CodeMalformedJSON, CodeDuplicateKey, CodeUnknownField, CodeWrongType:
		return true
	}
	return false
}

// orNil keeps an empty list from becoming a non-nil error.
func (v Violations) orNil() error {
	if len(v) == 0 {
		return nil
	}
	return v
}

// Codes of faults in the shape of a document (an HTTP API answers 400, the
// fold undecodable).
const (
	CodeMalformedJSON = "malformed_json"
	CodeDuplicateKey  = "duplicate_key"
	CodeUnknownField  = "unknown_field"
	CodeWrongType     = "wrong_type"
)

// Codes of broken rules of the domain (an HTTP API answers 422, the fold
// invalid).
const (
	CodeMissing            = "required"
	CodeUnknownAction      = "unknown_action"
	CodeUnknownProtocol    = "unknown_protocol"
	CodeInvalidCIDR        = "invalid_cidr"
	CodeCIDRNotMasked      = "cidr_not_masked"
	CodeCIDRFamilyMismatch = "cidr_family_mismatch"
	CodePortsRequired      = "ports_required"
	CodePortsForbidden     = "ports_forbidden"
	CodePortOutOfRange     = "port_out_of_range"
	CodePortRangeInverted  = "port_range_inverted"
	CodeRulesOutOfRange    = "rules_out_of_range" // fewer than 1 or more than 1024
	CodeSelectorSyntax     = "selector_syntax_error"

	CodeUnknownTier                = "unknown_tier"
	CodePriorityOutOfRange         = "priority_out_of_range"
	CodeSelectorAndCIDR            = "selector_and_cidr" // on one side of a rule
	CodeProxyPortRequired          = "proxy_port_required"
	CodeProxyPortForbidden         = "proxy_port_without_redirect"
	CodeListenerPriorityForbidden  = "listener_priority_without_redirect"
	CodeListenerPriorityOutOfRange = "listener_priority_out_of_range"
	CodeUnknownAuth                = "unknown_auth"
	CodeAuthForbidden              = "auth_without_allow" // on a deny, log or pass
	CodeUnknownDirection           = "unknown_direction"

	CodeInvalidSlug        = "invalid_slug"
	CodeInvalidDisplayName = "invalid_display_name"
	CodeTextTooLong        = "text_too_long" // created_by, correlation_id
	CodeInvalidUUID        = "invalid_uuid"
	CodeInvalidTime        = "invalid_time"
	CodeInvalidNodeID      = "invalid_node_id"
	CodeInvalidLabelKey    = "invalid_label_key"
	CodeInvalidLabelValue  = "invalid_label_value"
	CodeTooManyLabels      = "too_many_labels"
	CodeInvalidAddress     = "invalid_address"
	CodeTooManyAddresses   = "too_many_addresses"
	CodeInvalidVersion     = "invalid_version"
	CodeInvalidFingerprint = "invalid_fingerprint"
	CodeUnknownOutcome     = "unknown_outcome" // of a report
	CodeTooManyCounts      = "too_many_counts"
	CodeInvalidCount       = "invalid_count"

	CodeWavesOutOfRange   = "waves_out_of_range"
	CodePercentOutOfRange = "percent_out_of_range"
	CodeUnknownOnRefusal  = "unknown_on_refusal"

	CodeInvalidAdmissionPolicyID = "invalid_policy_id"
	CodeInvalidArtifact          = "invalid_artifact"
	CodeInvalidArtifactName      = "invalid_artifact_name" // of a kind, too
	CodeArtifactsOutOfRange      = "artifacts_out_of_range"
	CodeSignersOutOfRange        = "signers_out_of_range"
	CodeInvalidPublicKey         = "invalid_public_key"
	CodeUnknownLevel             = "unknown_level"
	CodeUnknownMode              = "unknown_mode"
	CodeInvalidPriority          = "invalid_priority"
	CodeOwnerForbidden           = "owner_forbidden"
	CodeControlCharacter         = "control_character"
	CodeTooManyTestCases         = "too_many_test_cases"

	CodeInvalidPrincipalID = "invalid_principal_id"
	CodeInvalidRelation    = "invalid_relation"
	CodeUnknownKind        = "unknown_kind"
	CodeInvalidToken       = "invalid_token"
	CodeInvalidSPIFFE      = "invalid_spiffe_id"
	CodeTooManyCredentials = "too_many_credentials"
	CodeInvalidKeyID       = "invalid_key_id"
)

// Codes of warnings: what may stand and is likely not meant.
const (
	CodePassIntoNothing = "pass_into_nothing"
)
