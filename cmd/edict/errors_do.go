package main

import (
	"cmp"
	"net/http"

	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/projector"
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

// errorCures are what to do about codes.
var errorCures = map[string]string{
	api.CodeNodeNotFound:           "edict node list shows the nodes of --project; edict node apply registers one",
	api.CodePolicyNotFound:         "edict policy list shows the policies of --project; edict policy apply -f FILE publishes one",
	api.CodeRevisionNotFound:       "edict policy revisions NAME lists them",
	api.CodePeerNotFound:           "name a node of the project, as edict node list has it, or an IP address",
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
}
