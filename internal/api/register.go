package api

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// Signer holds the plane's key; *artifact.Signer is one.
type Signer interface {
	Sign(message []byte) []byte
	KeyID() string
	PublicKey() []byte
}

// Codes of registrations that are refused, beside those of the fold.
const (
	CodeKindMismatch     = "kind_mismatch"
	CodeProjectMismatch  = "project_mismatch"
	CodePublicKeyInvalid = "public_key_invalid"
	CodeResourceNotFound = "resource_not_found"
)

const patternRegister = "/v1/register"

// Edict makes no mesh, and agents want to hear of one. This is the address that
// stands for none (RFC 7600): agents keep it, and no packet goes there.
const (
	noMeshIP   = "192.0.0.8"
	noMeshCIDR = noMeshIP + "/32"
)

// registerHandlers let agents register.
type registerHandlers struct {
	model    views
	reads    *reads
	writes   *writes
	failures failureLimit
	signer   func() (current, previous Signer)
	clock    func() time.Time
}

func (h *registerHandlers) routes() []Route {
	return []Route{{
		Method: http.MethodPost, Pattern: patternRegister, ID: "registerNode", Tag: "node", Needs: access.Anyone,
		Summary:  "Trade a bootstrap token for the bearer token of a node",
		BodyType: mediaJSON, Body: resource.RegisterRequest{}, Lenient: true,
		Answers: jsonAnswer(http.StatusCreated, resource.Registered{}),
		Problems: writeProblems(CodeUnauthenticated, CodeTooManyFailures, CodeKindMismatch, CodeProjectMismatch, projector.CodeTokenConsumed,
			projector.CodeTokenExpired, projector.CodeTokenRevoked, projector.CodeNonceCollision, CodePublicKeyInvalid, CodeResourceNotFound,
			policy.CodeMissing, policy.CodeTextTooLong, policy.CodeInvalidUUID, policy.CodeMalformedJSON, policy.CodeDuplicateKey, policy.CodeWrongType,
			CodeBodyTooLarge, CodeUnsupportedMedia, CodeStarting),
		serve: h.register,
	}, h.deregisterRoute()}
}

// registerCodes are what a registration may meet.
func registerCodes() map[string]meaning {
	return map[string]meaning{
		CodeKindMismatch:             {http.StatusForbidden, "the bootstrap token is of no node"},
		CodeProjectMismatch:          {http.StatusForbidden, "the bootstrap token is for a node of another project"},
		CodePublicKeyInvalid:         {http.StatusBadRequest, "the public key is not the base64 of an X25519 key"},
		CodeResourceNotFound:         {http.StatusNotFound, "the bootstrap token is for another resource, or its node is gone"},
		projector.CodeTokenConsumed:  {http.StatusForbidden, "a node registered with the bootstrap token already"},
		projector.CodeTokenExpired:   {http.StatusForbidden, "the bootstrap token has expired"},
		projector.CodeTokenRevoked:   {http.StatusForbidden, "the bootstrap token was revoked"},
		projector.CodeNonceCollision: {http.StatusForbidden, "the nonce was used in another registration"},
	}
}

// register is the one write that needs no credentials but its body. Nobody gets
// an event into the log without a bootstrap token that is good as far as this
// worker knows; that it is used once is the fold's to say.
func (h *registerHandlers) register(c *call) error {
	if h.signer == nil {
		return starting(errors.New("it has no key to register nodes with"))
	}
	signer, previous := h.signer()
	var body resource.RegisterRequest
	if err := c.lenient(&body); err != nil {
		return err
	}
	reg, err := readRegistration(body)
	if err != nil {
		return err
	}
	who, t, err := h.bootstrap(c, reg.token)
	if err != nil {
		return err
	}
	err = h.reads.check(c, func(v *projector.View) error {
		if now, found, ok := v.Bootstrap(sha256.Sum256([]byte(reg.token))); ok {
			who, t = now, found // a retry looks again
		}
		return h.registrable(v, who.ID, t, reg)
	})
	node, _ := parseID(string(who.ID)) // registrable has seen to it
	secret, bearer := reg.secret(signer, node)
	if err == nil {
		err = h.enroll(c, who.ID, t.ID, reg, bearer)
	}
	var consumed *resource.Problem
	if errors.As(err, &consumed) && consumed.Code == projector.CodeTokenConsumed && h.clock().Before(t.Expires) {
		// By this very request, maybe, sent before: then, too, when the plane had
		// another key.
		if previous != nil && !h.registeredSo(who.ID, bearer) {
			secret, bearer = reg.secret(previous, node)
		}
		if h.registeredSo(who.ID, bearer) {
			err = nil
		}
	}
	if err != nil {
		var pr *resource.Problem
		if errors.As(err, &pr) && pr.Status < http.StatusInternalServerError { // else the plane cannot, whatever is shown
			h.failures.failed(c)
		}
		return err
	}
	return c.json(http.StatusCreated, resource.Registered{
		NodeID: node.String(), MeshIP: noMeshIP, DomainMeshCIDR: noMeshCIDR,
		SigningPublicKey: base64.StdEncoding.EncodeToString(signer.PublicKey()), SigningKeyID: signer.KeyID(),
		NSK: base64.StdEncoding.EncodeToString(secret[:]), NodeSecretKey: bearer,
		PeerSnapshot: []json.RawMessage{}, Peers: []json.RawMessage{},
	})
}

// bootstrap finds whose token it is. One made elsewhere a moment ago is looked
// for again once the fold has caught up.
func (h *registerHandlers) bootstrap(c *call, token string) (who projector.Principal, t policy.Bootstrap, err error) {
	kind, ok := access.BootstrapKind(token)
	if ok {
		find := func() (ok bool) {
			h.model.Read(func(v *projector.View) { who, t, ok = v.Bootstrap(sha256.Sum256([]byte(token))) })
			return ok
		}
		if ok = find(); !ok {
			if err := h.failures.blocked(c); err != nil {
				return who, t, err
			}
			if err := h.reads.catchUp(c, 0); err != nil {
				return who, t, err
			}
			ok = find()
		}
	}
	switch {
	case !ok:
		err = problem(http.StatusUnauthorized, CodeUnauthenticated, "the bootstrap token is not known here; make one with edict access bootstrap")
	case kind != "node":
		err = problem(http.StatusForbidden, CodeKindMismatch, "the bootstrap token is of a %s; this plane registers nodes", kind)
	default:
		return who, t, nil
	}
	if wait := h.failures.blocked(c); wait != nil {
		return who, t, wait
	}
	h.failures.failed(c)
	if !ok {
		c.w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
	}
	return who, t, err
}

// registrable says why a node may not be registered with a token. What it says
// of the token's state is as new as this fold.
func (h *registerHandlers) registrable(v *projector.View, id policy.PrincipalID, t policy.Bootstrap, reg registration) error {
	n, known := v.Node(policy.NodeID(id))
	_, isID := parseID(string(id))
	if !isID {
		return problem(http.StatusForbidden, CodeKindMismatch, "%s is no node that an agent registers as: its id is not a UUID", id)
	}
	switch h.writes.refusal(v, policy.NodeRegistered{Principal: id, Bootstrap: t.ID}) {
	case projector.CodeTokenRevoked:
		return problem(http.StatusForbidden, projector.CodeTokenRevoked, "the bootstrap token was revoked; make another with edict access bootstrap")
	case projector.CodeTokenConsumed:
		return problem(http.StatusForbidden, projector.CodeTokenConsumed, "the bootstrap token was used already; make another with edict access bootstrap")
	case projector.CodeTokenExpired:
		return problem(http.StatusForbidden, projector.CodeTokenExpired, "the bootstrap token has expired; make another with edict access bootstrap")
	}
	switch {
	case reg.project != uuid.Nil && reg.project != t.Project:
		return problem(http.StatusForbidden, CodeProjectMismatch, "the bootstrap token is for a node of another project than %s", reg.project)
	case t.Resource != "" && reg.dialect == policy.DialectCurrent && reg.resource != t.Resource,
		reg.wants != "" && reg.wants != string(id):
		return problem(http.StatusNotFound, CodeResourceNotFound, "the bootstrap token is for another resource than the agent names")
	case !known || n.Project != t.Project:
		return problem(http.StatusNotFound, CodeResourceNotFound, "the node of the bootstrap token is not registered with its project any more: edict node apply %s", id)
	}
	return nil
}

// enroll appends the registration and waits for the fold's verdict. The event's
// id follows from what it says, so a request sent twice is one event.
func (h *registerHandlers) enroll(c *call, id policy.PrincipalID, bootstrap uuid.UUID, reg registration, bearer string) error {
	c.principal = string(id) // the token says so, and no header
	e := policy.NodeRegistered{
		ID: derivedID(string(id), uuid.Nil, bearer, "register"), Principal: id, Bootstrap: bootstrap,
		Dialect: reg.dialect, PublicKey: reg.publicKey, Hash: sha256.Sum256([]byte(bearer)),
	}
	if reg.dialect == policy.DialectCurrent {
		nonce := sha256.Sum256([]byte(reg.nonce))
		e.Nonce = &nonce
	}
	_, err := h.writes.commit(c, e, false)
	var pr *resource.Problem
	if errors.As(err, &pr) {
		switch pr.Code {
		case projector.CodeTokenConsumed, projector.CodeTokenExpired, projector.CodeTokenRevoked, projector.CodeNonceCollision:
			pr.Status = http.StatusForbidden
		}
	}
	return err
}

// registeredSo reports whether the node's registration, as it stands, gave this
// bearer token.
func (h *registerHandlers) registeredSo(id policy.PrincipalID, bearer string) (so bool) {
	hash := sha256.Sum256([]byte(bearer))
	h.model.Read(func(v *projector.View) {
		who, ok := v.Principal(id)
		if !ok || who.Document == nil || who.Document.Registration == nil {
			return
		}
		for _, t := range who.Document.Tokens {
			so = so || t.ID == who.Document.Registration.Token && t.Hash == hash
		}
	})
	return so
}
