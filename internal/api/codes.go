package api

import (
	"maps"
	"net/http"
	"slices"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// meaning is what a code stands for: the status it comes with, and a sentence
// for readers of the description.
type meaning struct {
	status int
	text   string
}

// ErrorCode is a code of a Problem: the HTTP status that it comes with, and what it
// stands for, in a sentence without capital and full stop.
type ErrorCode struct {
	Code    string `json:"code"`
	Status  int    `json:"status,omitempty"` // 0: of no answer
	Meaning string `json:"meaning"`
}

// ErrorCodes are all of them, by code.
func ErrorCodes() []ErrorCode {
	all := meanings()
	out := make([]ErrorCode, 0, len(all))
	for _, code := range slices.Sorted(maps.Keys(all)) {
		out = append(out, ErrorCode{code, all[code].status, all[code].text})
	}
	return out
}

// meanings of every code that a route may answer with.
func meanings() map[string]meaning {
	all := map[string]meaning{
		CodeRouteNotFound:             {http.StatusNotFound, "nothing is served at this path"},
		CodeMethodNotAllowed:          {http.StatusMethodNotAllowed, "the path takes other methods; Allow lists them"},
		CodeBodyTooLarge:              {http.StatusRequestEntityTooLarge, "the body is larger than 1 MiB, or a compressed batch inflates to more than it may"},
		CodeUnsupportedMedia:          {http.StatusUnsupportedMediaType, "the body is of another media type, charset or encoding than the route takes"},
		CodeBadCursor:                 {http.StatusBadRequest, "the cursor is no next_cursor of this list"},
		CodeBadLastEventID:            {http.StatusBadRequest, "Last-Event-ID is not a non-negative decimal number"},
		CodeNotAcceptable:             {http.StatusNotAcceptable, "Accept asks for a form of events that there is not"},
		CodeBadHeader:                 {http.StatusBadRequest, "a header is longer than 256 bytes or not printable ASCII, or says that a web page of another origin asks, or is a condition that the route does not look at"},
		CodeUnknownParameter:          {http.StatusBadRequest, "the query has a parameter that the route does not know, or has one twice, or cannot be read"},
		CodeNotYet:                    {http.StatusBadRequest, "the moment is yet to come; the log ends before it"},
		CodePolicyNotFound:            {http.StatusNotFound, "the project has no such policy"},
		CodeNoDecisionLog:             {http.StatusNotFound, "this worker keeps no decisions: start it with --decision-log"},
		CodeDecisionNotFound:          {http.StatusNotFound, "the decision log has no such decision"},
		CodeRevisionNotFound:          {http.StatusNotFound, "the policy has no such revision"},
		CodePeerNotFound:              {http.StatusNotFound, "the peer is neither a node of the project nor an address"},
		CodePrincipalNotFound:         {http.StatusNotFound, "the log knows no such principal"},
		CodeCredentialTaken:           {http.StatusConflict, "another principal lists the same token, SPIFFE ID or identity"},
		CodeGivenByFile:               {http.StatusConflict, "the file of principals that the plane was started with gives it, and no request takes it away"},
		CodeNodeNotFound:              {http.StatusNotFound, "there is no such node here"},
		CodeProjectionBehind:          {http.StatusServiceUnavailable, "this worker has not folded the log far enough yet; try again"},
		CodeContended:                 {http.StatusServiceUnavailable, "others changed the same thing each time that the change was tried; try again"},
		CodeStarting:                  {http.StatusServiceUnavailable, "this worker is not ready to serve; try again"},
		CodeLogUnavailable:            {http.StatusServiceUnavailable, "the log did not answer; a write may be stored or not, and a retry under the same Idempotency-Key is the same write"},
		CodeStorageLow:                {http.StatusInsufficientStorage, "the plane has too little disk left to take writes"},
		CodeKeyReused:                 {http.StatusUnprocessableEntity, "the Idempotency-Key was used for a write with another body; send this one under a key of its own"},
		CodePreconditionFailed:        {http.StatusPreconditionFailed, "If-Match does not name the present state; nothing was written"},
		CodeProjectOverShare:          {http.StatusTooManyRequests, "the project took its share of the log in 24 hours; Retry-After says when the oldest hours are over. What only deletes is taken"},
		projector.CodeQuotaExceeded:   {http.StatusTooManyRequests, "the project has a quota, and has or adds as much as it may; Retry-After says when a rate lets it go on, and is a minute where something must be removed. What only deletes is taken"},
		projector.CodeProjectArchived: {http.StatusConflict, "the project is archived, and takes no event until an administrator restores it"},
		projector.CodeProjectInUse:    {http.StatusConflict, "the project has nodes, or a rollout under way, and cannot be archived"},
		CodeKeyInTransition:           {http.StatusConflict, "the rotation before is still being announced to nodes"},
		CodeNextKeyMissing:            {http.StatusConflict, "there is no new key to sign with, or not every worker holds it"},
		CodeInvalidTransition:         {http.StatusUnprocessableEntity, "the transition is no time, or shorter than a minute or longer than a year"},
		CodeSnapshotRunning:           {http.StatusConflict, "this worker is making a checkpoint already"},
		CodeCompactionRunning:         {http.StatusConflict, "the log is being compacted already"},
		CodeNotCompactable:            {http.StatusConflict, "the log cannot begin at that event, its stream was made so that nothing can be removed, or it is damaged"},
		CodeLogCompacted:              {http.StatusGone, "the log was compacted, and does not have that event any more; the detail says where it begins, and which archive has the rest"},
		CodeTooManyRejections:         {http.StatusUnprocessableEntity, "so many lines were rejected that the batch was given up; what was good before is applied"},
		CodeReleaseNotFound:           {http.StatusNotFound, "the project released nothing of that version for the node"},
		CodeArtifactNotFound:          {http.StatusNotFound, "the node holds no such artifact of the project"},
		CodeVersionAhead:              {http.StatusUnprocessableEntity, "a version is above the log's last sequence"},
		CodeInternal:                  {http.StatusInternalServerError, "the plane failed; its log has the reason under the correlation id"},

		projector.CodeRevisionConflict: {http.StatusConflict, "the head is another revision than the change expects"},
		projector.CodePolicyIDUsed:     {http.StatusConflict, "the policy id is in use or was"},
		projector.CodePolicyLimit:      {http.StatusConflict, "the plane has accepted as many policies as it ever can"},
		projector.CodeRolloutUnderWay:  {http.StatusConflict, "a revision of the policy is being rolled out; wait until that has ended, or abort it"},
		projector.CodeNotStaged:        {http.StatusConflict, "the revision is not what is staged"},
		projector.CodeNoRollout:        {http.StatusConflict, "no rollout of the revision is under way"},
		projector.CodeWaveConflict:     {http.StatusConflict, "the wave is not the next one, or another is open"},
		projector.CodePolicySlugTaken:  {http.StatusConflict, "another policy of the project has the slug"},
		projector.CodeNodeIDTaken:      {http.StatusConflict, "the node id belongs to another project"},
		CodeClockSkew:                  {http.StatusBadRequest, "the agent's clock is more than 60 s from the plane's"},
		CodeTooManyAtOnce:              {http.StatusServiceUnavailable, "too many requests are being evaluated; try again"},

		projector.CodeStaleEvent: {http.StatusConflict, "a newer write about the node came between"},
	}
	maps.Copy(all, accessCodes())
	maps.Copy(all, registerCodes())
	maps.Copy(all, admissionCodes())
	for code, text := range shapeFaults() {
		all[code] = meaning{http.StatusBadRequest, text}
	}
	for code, text := range brokenRules() {
		all[code] = meaning{http.StatusUnprocessableEntity, text}
	}
	for code, text := range datapathCodes() {
		all[code] = meaning{http.StatusUnprocessableEntity, text}
	}
	return all
}

// admissionCodes are what admission policies may meet, and what meets them.
func admissionCodes() map[string]meaning {
	return map[string]meaning{
		CodeInvalidRego:             {http.StatusBadRequest, "the Rego code does not compile; errors lists every fault with its row and column"},
		CodeInvalidTestCases:        {http.StatusUnprocessableEntity, "a test case cannot be read"},
		CodeTooManyPolicies:         {http.StatusConflict, "the user has as many admission policies as a user may have; change or delete one"},
		CodeTestsFailed:             {http.StatusUnprocessableEntity, "test cases of the policy fail, so it does not go live"},
		CodeImmutableField:          {http.StatusUnprocessableEntity, "a field that never changes is given another value"},
		CodeRejected:                {http.StatusForbidden, "an admission policy rejects the request"},
		CodePolicyConflict:          {http.StatusConflict, "an admission policy does what another one forbids"},
		CodePolicyFailed:            {http.StatusInternalServerError, "an admission policy failed, so the request does"},
		CodePolicyTimeout:           {http.StatusInternalServerError, "an admission policy ran out of time, so the request fails"},
		CodeInvalidPayload:          {http.StatusUnprocessableEntity, "the payload cannot be evaluated"},
		CodeInvalidPatched:          {http.StatusConflict, "an admission policy patches the request into what is no valid policy; policy names it"},
		projector.CodeNameTaken:     {http.StatusConflict, "another admission policy of the level and owner has the name"},
		projector.CodePriorityTaken: {http.StatusConflict, "another admission policy of the level and owner has the priority"},
	}
}

func shapeFaults() map[string]string {
	return map[string]string{
		policy.CodeMalformedJSON: "the body is no JSON text",
		policy.CodeDuplicateKey:  "an object names a member twice",
		policy.CodeUnknownField:  "an object has a member that the route does not know",
		policy.CodeWrongType:     "a value is of another type than it must be",
	}
}

func brokenRules() map[string]string {
	return map[string]string{
		policy.CodeMissing:            "something that must be given is not",
		policy.CodeUnknownAction:      "an action is none of allow, deny, log, pass and redirect",
		policy.CodeUnknownProtocol:    "a protocol is none of tcp, udp, sctp, icmp and any",
		policy.CodeInvalidCIDR:        "a prefix is no IPv4 or IPv6 CIDR",
		policy.CodeCIDRNotMasked:      "a prefix has bits set beyond its length",
		policy.CodeCIDRFamilyMismatch: "the prefixes of a rule are of two address families",
		policy.CodePortsRequired:      "a rule for tcp, udp or sctp names no ports",
		policy.CodePortsForbidden:     "a rule for icmp or any names ports",
		policy.CodePortOutOfRange:     "a port is not 1 to 65535",
		policy.CodePortRangeInverted:  "a range of ports ends before it begins",
		policy.CodeRulesOutOfRange:    "there are no rules, or more than 1024",
		policy.CodeSelectorSyntax:     "a selector cannot be read",

		policy.CodeUnknownTier:                "a tier is none of admin, normal and baseline",
		policy.CodePriorityOutOfRange:         "a priority is not 0 to 16777215",
		policy.CodeSelectorAndCIDR:            "a side of a rule has a selector and a CIDR",
		policy.CodeProxyPortRequired:          "a redirect names no proxy port",
		policy.CodeProxyPortForbidden:         "a rule that is no redirect names a proxy port",
		policy.CodeListenerPriorityForbidden:  "a rule that is no redirect has a listener priority",
		policy.CodeListenerPriorityOutOfRange: "a listener priority is not 1 to 126",
		policy.CodeUnknownAuth:                "an auth is none of required and disabled",
		policy.CodeAuthForbidden:              "a rule that is neither allow nor redirect has an auth",
		policy.CodeUnknownDirection:           "a direction is neither ingress nor egress",

		policy.CodeInvalidQuota:       "a number of a quota is none from 0 to 2^50",
		policy.CodeWavesOutOfRange:    "there are more than 16 waves",
		policy.CodePercentOutOfRange:  "a percent is not 0 to 100",
		policy.CodeUnknownOnRefusal:   "what becomes of a rollout that nodes refuse is neither stop nor abort",
		policy.CodeInvalidSlug:        "a slug is not 1 to 64 of a-z, 0-9 and '-' after a letter",
		policy.CodeInvalidDisplayName: "a display name is longer than 128 characters, or has control characters or such as nobody sees",
		policy.CodeInvalidUUID:        "an id is no UUID",
		policy.CodeInvalidNodeID:      "a node id is no DNS label",
		policy.CodeInvalidLabelKey:    "a label's key is not a key as Kubernetes has them",
		policy.CodeInvalidLabelValue:  "a label's value has characters it must not have, or more than 256 bytes",
		policy.CodeTooManyLabels:      "a node has more than 64 labels",
		policy.CodeInvalidAddress:     "an address is no plain IPv4 or IPv6 address",
		policy.CodeTooManyAddresses:   "a node has more than 64 addresses",
		policy.CodeInvalidVersion:     "a version is no whole number below 2^64",
		policy.CodeInvalidFingerprint: "a fingerprint is not the base64 of 32 bytes",
		policy.CodeUnknownOutcome:     "an outcome is none of applied, refused, stale and drift",
		policy.CodeTooManyCounts:      "a report counts for more than 16 policies in audit mode",
		policy.CodeInvalidCount:       "a count of packets is no whole number below 2^64",

		policy.CodeInvalidArtifactName:      "the kind or the name of an artifact is no DNS label",
		policy.CodeInvalidAdmissionPolicyID: "an admission policy's id is no DNS label",
		policy.CodeUnknownLevel:             "a policy_type is none of Global, Tenant and User",
		policy.CodeUnknownMode:              "a mode is neither enforce nor, of a policy, audit, or, of an admission policy, shadow",
		policy.CodeInvalidPriority:          "a priority is no whole number from 0 to 2147483647",
		policy.CodeOwnerForbidden:           "a policy has an owner that its level cannot have",
		policy.CodeControlCharacter:         "a text has control characters",
		policy.CodeTooManyTestCases:         "a policy has more than 256 test cases",
		policy.CodeInvalidPrincipalID:       "a principal's id is no DNS label",
		policy.CodeInvalidRelation:          "a relation is none that an object of the kind can have",
		policy.CodeUnknownKind:              "a kind is none of person, service and node",
		policy.CodeInvalidToken:             "a token's hash is not 64 hex digits",
		policy.CodeInvalidSPIFFE:            "a SPIFFE ID is none",
		policy.CodeTooManyCredentials:       "a principal has more than 32 credentials of a sort",
		policy.CodeInvalidTime:              "a time is not as RFC 3339 has it",
		policy.CodeTextTooLong:              "a text is longer than its limit",
	}
}

// ruleFaults are what a rule list and a selector may break.
func ruleFaults(more ...string) []string {
	return append(more, policy.CodeMissing, policy.CodeUnknownAction, policy.CodeUnknownProtocol, policy.CodeInvalidCIDR,
		policy.CodeCIDRNotMasked, policy.CodeCIDRFamilyMismatch, policy.CodePortsRequired, policy.CodePortsForbidden,
		policy.CodePortOutOfRange, policy.CodePortRangeInverted, policy.CodeRulesOutOfRange, policy.CodeSelectorSyntax,
		policy.CodeUnknownTier, policy.CodeUnknownMode, policy.CodePriorityOutOfRange, policy.CodeSelectorAndCIDR, policy.CodeProxyPortRequired,
		policy.CodeProxyPortForbidden, policy.CodeListenerPriorityForbidden, policy.CodeListenerPriorityOutOfRange,
		policy.CodeUnknownAuth, policy.CodeAuthForbidden, policy.CodeUnknownDirection)
}

// factFaults are what a node's facts may break.
func factFaults(more ...string) []string {
	return append(more, policy.CodeInvalidLabelKey, policy.CodeInvalidLabelValue, policy.CodeTooManyLabels,
		policy.CodeInvalidAddress, policy.CodeTooManyAddresses)
}
