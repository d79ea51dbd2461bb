package main

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// errorHelp is a code with what to do about it.
type errorHelp struct {
	api.ErrorCode
	Do string `json:"do"`
}

func helpFor(c api.ErrorCode) errorHelp {
	return errorHelp{c, cmp.Or(errorCures[c.Code], statusCures[c.Status])}
}

// statusCures are what to do about codes that have no cure of their own, by status.
var statusCures = map[int]string{
	http.StatusBadRequest:           "correct what the fault names; edict explain says what files may have",
	http.StatusUnprocessableEntity:  "correct what the fault names; edict explain says what files may have",
	http.StatusUnauthorized:         "give --token-file, or --cert and --key; edict context add keeps a token's file; start the plane again after edict access token create --file",
	http.StatusForbidden:            "edict access can-i VERB OBJECT says whether you may; ask who administers the plane",
	http.StatusNotFound:             "list what there is, and look at the name and at --project",
	http.StatusConflict:             "read what is there now, and decide again",
	http.StatusPreconditionFailed:   "read what is there now, and decide again",
	http.StatusTooManyRequests:      "try again later, as Retry-After says",
	http.StatusServiceUnavailable:   "try again; edict doctor says what is wrong if it goes on",
	http.StatusInsufficientStorage:  "give the plane more disk; edict log compact --dry-run says what a compaction would free",
	http.StatusInternalServerError:  "look for the correlation id in the plane's log",
	http.StatusGone:                 "read it from an archive of the log: edict log cat",
	http.StatusMethodNotAllowed:     "ask with a method that Allow lists",
	http.StatusNotAcceptable:        "ask without Accept, or for application/json",
	http.StatusUnsupportedMediaType: "send application/json, in UTF-8",
}

// unsaid are codes whose messages say what is wrong and not what to do, which the command line adds.
var unsaid = []string{
	api.CodeNodeNotFound, api.CodeRevisionNotFound, api.CodePeerNotFound, api.CodePrincipalNotFound, api.CodeProjectNotFound, api.CodeDecisionNotFound,
	api.CodeReleaseNotFound, api.CodeForbidden, api.CodeLogUnavailable, api.CodeProjectionBehind, api.CodeStorageLow, api.CodeBodyTooLarge,
	api.CodePreconditionFailed, api.CodeCredentialTaken, projector.CodeProjectInUse, projector.CodeNotStaged, projector.CodeNoRollout,
	projector.CodeNameTaken, projector.CodePriorityTaken, projector.CodeWaveConflict, policy.CodeTooManyCredentials,
}

// unsaidCure is what to do about an answer of the plane that does not say it itself; "": it does, or nobody knows.
func unsaidCure(p *resource.Problem) string {
	if !slices.Contains(unsaid, p.Code) || strings.Contains(p.Detail, "edict ") {
		return ""
	}
	return helpFor(api.ErrorCode{Code: p.Code, Status: p.Status}).Do
}

// errorCures are what to do about codes.
var errorCures = map[string]string{
	api.CodeNodeNotFound:           "edict node list shows the nodes of --project; edict node apply registers one",
	api.CodePolicyNotFound:         "edict policy list shows the policies of --project; edict policy apply -f FILE publishes one",
	api.CodeRevisionNotFound:       "edict policy revisions NAME lists them",
	api.CodeProjectNotFound:        "edict access self shows your relations; ask who administers the plane for what is missing, and look at --project",
	api.CodeForbidden:              "edict access self shows your relations; ask who administers the plane for what is missing",
	api.CodeLogUnavailable:         "type it again; edict doctor says what is wrong",
	api.CodeDecisionNotFound:       "edict admission decisions lists them",
	api.CodeReleaseNotFound:        "edict release list shows what was released, by node",
	api.CodeArtifactNotFound:       "edict release list shows what was released, by node",
	api.CodePeerNotFound:           "name a node of the project, as edict node list has it, or an IP address",
	policy.CodeTooManyCredentials:  "take one away with edict access token revoke; edict access token list shows them",
	api.CodePrincipalNotFound:      "edict access list shows who there is",
	api.CodeNoDecisionLog:          "start the worker with edict serve --decision-log",
	api.CodeRouteNotFound:          "look at --server, and at the version of the plane; --admin-server names an address of operators' routes",
	api.CodeNotYet:                 "name a moment that is not later than the log's last event; edict status says which that is",
	api.CodeBodyTooLarge:           "send less at once: several files, or edict policy import for many policies",
	api.CodeKeyReused:              "send each write under an Idempotency-Key of its own",
	api.CodePreconditionFailed:     "somebody else changed it: read it again, and change that",
	projector.CodeQuotaExceeded:    "remove what is not needed, or have an administrator raise it: edict project quota set",
	projector.CodeProjectArchived:  "edict project restore PROJECT",
	projector.CodeRevisionConflict: "somebody else revised it: edict policy diff -f FILE shows what an apply would change now; apply again if that is meant",
	projector.CodePolicySlugTaken:  "choose another slug, or revise the policy that has it",
	projector.CodeNodeIDTaken:      "choose another id, or name the node's own project with --project",
	projector.CodeRolloutUnderWay:  "edict policy rollout NAME shows it; wait until it has ended, or end it: edict policy abort NAME",
	projector.CodeStaleEvent:       "read the node again, and write what should be there",
	projector.CodeProjectInUse:     "delete its nodes, and end its rollouts: edict node list, edict policy abort NAME",
	projector.CodeNotStaged:        "edict policy rollout NAME shows what is staged",
	projector.CodeNoRollout:        "edict policy rollout NAME shows what is under way",
	projector.CodeWaveConflict:     "edict policy rollout NAME shows which wave is open",
	projector.CodePolicyIDUsed:     "choose another id, or none: the plane makes one",
	projector.CodePolicyLimit:      "revise a policy that lives instead of creating another",

	// Of nodes that register, and of what they report.
	projector.CodeTokenExpired:   "make another token: edict access bootstrap --node NODE",
	projector.CodeTokenRevoked:   "make another token: edict access bootstrap --node NODE",
	projector.CodeTokenConsumed:  "make another token, for this registration alone: edict access bootstrap --node NODE",
	projector.CodeNonceCollision: "start the agent again, which takes another nonce",
	api.CodeKindMismatch:         "make a token of a node: edict access bootstrap --node NODE",
	api.CodeProjectMismatch:      "make a token in the node's project: edict access bootstrap --node NODE --project PROJECT",
	api.CodeResourceNotFound:     "edict node list shows the nodes of --project; make a token for this one: edict access bootstrap --node NODE",
	api.CodePublicKeyInvalid:     "send the base64 of an X25519 public key",
	api.CodeClockSkew:            "set the clock of the agent's machine, and start the agent again",
	api.CodeTooManyEntries:       "publish fewer or broader rules for the node: edict node policies NODE shows what it has",
	api.CodeTooManyLevels:        "use fewer tiers and priorities among the policies of the node: edict policy list shows them",
	api.CodeVersionAhead:         "look at whose version it is: the node may have followed another plane, or this one before it was put back; edict status says where the log ends",

	// Of admission policies.
	api.CodeTestsFailed:         "mend the code or its test cases: edict admission test -f FILE says which fail",
	api.CodeRejected:            "change what it objects to; edict admission explain DECISION says which policy judged what",
	api.CodePolicyConflict:      "change one of the two admission policies: edict admission list shows the chain",
	api.CodePolicyFailed:        "mend the admission policy, or switch it off: edict admission get NAME shows it",
	api.CodePolicyTimeout:       "mend the admission policy, or switch it off: edict admission get NAME shows it",
	api.CodeInvalidPatched:      "mend the admission policy that patches it: edict admission get NAME shows it",
	api.CodeTooManyPolicies:     "change one that there is, or delete one: edict admission list",
	projector.CodeNameTaken:     "choose another name, or change the policy that has it: edict admission list",
	projector.CodePriorityTaken: "choose another priority: edict admission list shows which are taken",

	// Of what is sent, and is no file.
	api.CodeTooManyRejections:  "correct the lines that were rejected, and send them again; what was applied stays",
	api.CodeBadCursor:          "begin the list again without a cursor",
	api.CodeBadLastEventID:     "leave Last-Event-ID out, or send an id that the stream gave",
	api.CodeBadHeader:          "correct the header that the fault names",
	api.CodeUnknownParameter:   "correct the query; /openapi.json says which parameters a route takes",
	api.CodeInvalidTransition:  "give --transition from 1m to 8760h: edict key rotate --transition 24h",
	api.CodeInvalidSessionCode: "make another link: edict ui",
	api.CodeNoSignIn:           "make a link: edict ui; or start the plane with --oidc-issuer",

	// Of what the plane is doing.
	api.CodeGivenByFile:       "take it out of the file of serve --access, and start each worker again",
	api.CodeCredentialTaken:   "give another, or take it from the principal that has it: edict access list shows who there is",
	api.CodeKeyInTransition:   "wait until it is over: edict key list shows the keys",
	api.CodeNextKeyMissing:    "start every worker with --next-signing-key; edict key list shows which keys there are",
	api.CodeSnapshotRunning:   "wait until it is made: edict snapshot list shows it then",
	api.CodeCompactionRunning: "wait until it has ended",
	api.CodeNotCompactable:    "edict log compact --dry-run says what can be removed",
}

// rejections are the codes of rejected events that no answer of the plane has, and so no status.
var rejections = []errorHelp{
	{api.ErrorCode{Code: policy.Undecodable, Meaning: "an event is no JSON, or not of its type's shape"}, "correct the producer: docs/events.md has the shape of each type"},
	{api.ErrorCode{Code: policy.UnknownType, Meaning: "an event has a type that the plane does not know"}, "correct the type, or upgrade the plane: the producer may be newer"},
	{api.ErrorCode{Code: policy.Invalid, Meaning: "an event has the right shape and breaks a rule of the domain"}, "correct the values that edict status --rejected names"},
	{api.ErrorCode{Code: projector.CodeSubjectMismatch, Meaning: "an event's subject and its body name different ids"}, "publish it to the subject of the ids in its body"},
	{api.ErrorCode{Code: projector.CodePolicyNotOwned, Meaning: "the policy belongs to another project"}, "publish it under the project of the policy"},
	{api.ErrorCode{Code: projector.CodeVersionNotNewer, Meaning: "the version of a release is not above all that were released for the node"}, "compile again; retectl compile --version, if the tree does not know the last one"},
	{api.ErrorCode{Code: projector.CodeSignerNotTrusted, Meaning: "an artifact's signer is no signer of the rete, or the rete has none yet"}, "sign with a key of the rete; pin the first signer with edict release --trust"},
	{api.ErrorCode{Code: projector.CodeBadSignature, Meaning: "an artifact is not what its signer signed"}, "compile it again, and do not edit it"},
}
