package resource

import "time"

// PrincipalDocument is what a principal is and what proves it.
type PrincipalDocument struct {
	Kind        string         `json:"kind"`
	DisplayName string         `json:"display_name,omitempty"`
	Tokens      []Token        `json:"tokens,omitempty"`
	SPIFFE      []string       `json:"spiffe_ids,omitempty"`
	OIDC        []OIDCIdentity `json:"oidc,omitempty"`

	Bootstrap    []Bootstrap   `json:"bootstrap,omitempty"`
	Registration *Registration `json:"registration,omitempty"`
}

// Bootstrap is a one-time token for the registration of a node, as the plane
// knows it.
type Bootstrap struct {
	ID       string    `json:"id" doc:"Names it, to be revoked by."`
	SHA256   string    `json:"sha256" doc:"SHA-256 of the token's text."`
	Project  string    `json:"project_id" doc:"The id of the node's project."`
	Resource string    `json:"resource_handle,omitempty" doc:"What the agent must call itself; absent: anything."`
	Expires  time.Time `json:"expires_at" doc:"When it is worth nothing any more, by the log's clock."`
	State    string    `json:"state,omitempty" doc:"What became of it; absent: it can be used."`
}

// Registration is how a node's agent registered last.
type Registration struct {
	Token     string `json:"token_id" doc:"The bearer token that it got, among the principal's tokens."`
	Bootstrap string `json:"bootstrap_id" doc:"The bootstrap token that it gave."`
	Dialect   string `json:"dialect" doc:"The form of event envelopes that the agent reads."`
	PublicKey string `json:"public_key" doc:"The agent's X25519 public key."`
}

// Token is a bearer token as the plane knows it.
type Token struct {
	ID      string     `json:"id" doc:"Names it, to be revoked by."`
	SHA256  string     `json:"sha256" doc:"SHA-256 of the token's text."`
	Expires *time.Time `json:"expires_at,omitempty" doc:"When it is worth nothing any more; absent: never."`
}

// OIDCIdentity is a subject of an OpenID Connect issuer.
type OIDCIdentity struct {
	Issuer  string `json:"issuer" doc:"The issuer's URL, as its tokens have it."`
	Subject string `json:"subject" doc:"The subject's name there."`
}

// Principal is a principal of the log with its relations. One that only
// relations name has no kind yet.
type Principal struct {
	ID           string         `json:"id"`
	Kind         string         `json:"kind,omitempty"`
	DisplayName  string         `json:"display_name,omitempty"`
	Tokens       []Token        `json:"tokens,omitempty"`
	SPIFFE       []string       `json:"spiffe_ids,omitempty"`
	OIDC         []OIDCIdentity `json:"oidc,omitempty"`
	Bootstrap    []Bootstrap    `json:"bootstrap,omitempty"`
	Registration *Registration  `json:"registration,omitempty"`
	Relations    []Grant        `json:"relations" doc:"Its relations, by text."`
	Version      uint64         `json:"version" doc:"Log sequence of the event that gave what it is; its ETag."`
	CreatedBy    string         `json:"created_by,omitempty" doc:"Who wrote that."`
	CreatedAt    time.Time      `json:"created_at" doc:"When it was made, by the log's clock."`
	UpdatedAt    time.Time      `json:"updated_at" doc:"When it was last written, by the log's clock."`
}

// Relation names what a principal is to an object.
type Relation struct {
	Relation string `json:"relation" doc:"What the principal is to what: object#name, such as project:<uuid>#operator."`
}

// Grant is a relation that somebody gave.
type Grant struct {
	Relation  string `json:"relation" doc:"What the principal is to what: object#name, such as project:<uuid>#operator."`
	Seq       uint64 `json:"seq" doc:"The log sequence at which it was given."`
	CreatedBy string `json:"created_by,omitempty" doc:"Who gave it."`
}

// Self is whom the plane takes a caller for.
type Self struct {
	ID        string   `json:"id" doc:"The principal; anonymous where access is not configured and the caller gave no name."`
	Kind      string   `json:"kind,omitempty" doc:"What it is; absent where access is not configured."`
	Relations []string `json:"relations" doc:"Its relations, those of the plane's file among them."`
}

// AuditEntry is one event of the log: who wrote what.
type AuditEntry struct {
	Seq           uint64    `json:"seq" doc:"Its log sequence."`
	Time          time.Time `json:"time" doc:"When it was stored, by the log's clock."`
	Principal     string    `json:"principal,omitempty" doc:"Who wrote it through the API; absent when that is unknown, or it was appended directly."`
	CorrelationID string    `json:"correlation_id,omitempty" doc:"The request that it came by; absent when it was appended directly."`
	Via           string    `json:"via,omitempty" doc:"nats: a producer appended it over NATS; absent: it came by way of the API."` // nats: not the API
	// What an event that was appended without the API says of itself. It is not verified.
	Claimed              string `json:"claimed_principal,omitempty" doc:"Whom an event over NATS names as the one who caused it; it is not verified."`
	ClaimedCorrelationID string `json:"claimed_correlation_id,omitempty" doc:"The request that an event over NATS names; it is not verified."`
	Type                 string `json:"type" doc:"Its type, as its header has it; over NATS, as its body has it where that can be read."`
	Subject              string `json:"subject" doc:"The subject it stands on: what it is about."`
	EventID              string `json:"event_id" doc:"Its own id, likewise."`
	Policy               string `json:"policy,omitempty" doc:"The slug of the policy that its subject names, a deleted one too; absent where there is none, or the worker has not folded it yet."`
	Detail               string `json:"detail,omitempty" doc:"What it gave or took, where the subject does not say: a relation; the plane's key before and the new one."`
	Rejected             string `json:"rejected,omitempty" doc:"The code with which the fold refused it, so that it changed nothing; absent when it did not, or has not come to it."`
}
