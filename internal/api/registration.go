package api

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"net/http"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/policy"
)

// maxNonce is the most bytes of an agent's nonce.
const maxNonce = 256

// registration is a request that can be read.
type registration struct {
	token     string
	dialect   policy.Dialect
	publicKey [32]byte
	nonce     string
	project   uuid.UUID // Nil: not said
	resource  string    // likewise
	wants     string    // the node's id, likewise
}

// secret is what the registration gives the node, and the bearer token of it.
func (r registration) secret(by Signer, node uuid.UUID) (secret [32]byte, bearer string) {
	secret = access.NodeSecret(by.Sign, node, r.token, r.nonce, r.publicKey)
	return secret, access.NodeToken(node, secret)
}

// readRegistration reads either form.
func readRegistration(body resource.RegisterRequest) (r registration, err error) {
	r.token, r.dialect = body.BootstrapToken, policy.DialectCurrent
	if r.token == "" {
		r.token, r.dialect = body.Token, policy.DialectLegacy
	}
	var faults policy.Violations
	missing := func(name, value string) {
		if value == "" {
			faults = append(faults, policy.Violation{Pointer: "/" + name, Code: policy.CodeMissing, Detail: name + " is required"})
		}
	}
	missing("bootstrap_token", r.token)
	missing("public_key", body.PublicKey)
	if r.dialect == policy.DialectCurrent {
		r.nonce, r.wants = body.Nonce, body.RequestedResourceID
		r.resource = body.ResourceHandle
		if r.resource == "" {
			r.resource = body.ResourceID
		}
		missing("nonce", r.nonce)
		missing("project_id", body.ProjectID)
		r.project, _ = parseID(body.ProjectID)
		if body.ProjectID != "" && r.project == uuid.Nil {
			faults = append(faults, policy.Violation{Pointer: "/project_id", Code: policy.CodeInvalidUUID, Detail: "project_id is not a UUID"})
		}
	}
	if len(r.nonce) > maxNonce {
		faults = append(faults, policy.Violation{Pointer: "/nonce", Code: policy.CodeTextTooLong, Detail: "a nonce is at most 256 bytes"})
	}
	if len(faults) > 0 {
		return r, invalid(faults)
	}
	key, err := base64.StdEncoding.Strict().DecodeString(body.PublicKey)
	if err != nil || len(body.PublicKey) != base64.StdEncoding.EncodedLen(len(r.publicKey)) || !agrees(key) {
		return r, broken(http.StatusBadRequest, CodePublicKeyInvalid, "/public_key", "public_key is not the base64 of an X25519 public key")
	}
	r.publicKey = [32]byte(key)
	return r, nil
}

// agrees reports whether a key is an X25519 key that two sides can agree with;
// with a few it would come to zeros, whatever the other side has.
func agrees(key []byte) bool {
	theirs, err := ecdh.X25519().NewPublicKey(key)
	if err != nil {
		return false
	}
	ours, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return false
	}
	_, err = ours.ECDH(theirs)
	return err == nil
}

// showBootstrap shows what a principal has to do with registration.
func showBootstrap(d *policy.Principal) (tokens []resource.Bootstrap, r *resource.Registration) {
	for _, t := range d.Bootstrap {
		tokens = append(tokens, resource.Bootstrap{
			ID: t.ID.String(), SHA256: hex.EncodeToString(t.Hash[:]), Project: t.Project.String(),
			Resource: t.Resource, Expires: t.Expires.UTC(), State: string(t.State),
		})
	}
	if g := d.Registration; g != nil {
		r = &resource.Registration{
			Token: g.Token.String(), Bootstrap: g.Bootstrap.String(), Dialect: string(g.Dialect), PublicKey: hex.EncodeToString(g.PublicKey[:]),
		}
	}
	return tokens, r
}
