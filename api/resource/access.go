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
	ID       string    `json:"id"`
	SHA256   string    `json:"sha256"`
	Project  string    `json:"project_id"`
	Resource string    `json:"resource_handle,omitempty"`
	Expires  time.Time `json:"expires_at"`
	State    string    `json:"state,omitempty"`
}

// Registration is how a node's agent registered last.
type Registration struct {
	Token     string `json:"token_id"`
	Bootstrap string `json:"bootstrap_id"`
	Dialect   string `json:"dialect"`
	PublicKey string `json:"public_key"`
}

// Token is a bearer token as the plane knows it.
type Token struct {
	ID      string     `json:"id"`
	SHA256  string     `json:"sha256"`
	Expires *time.Time `json:"expires_at,omitempty"`
}

// OIDCIdentity is a subject of an OpenID Connect issuer.
type OIDCIdentity struct {
	Issuer  string `json:"issuer"`
	Subject string `json:"subject"`
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
	Relations    []Grant        `json:"relations"`
	Version      uint64         `json:"version"`
	CreatedBy    string         `json:"created_by,omitempty"`
	CreatedAt    time.Time      `json:"created_at"`
	UpdatedAt    time.Time      `json:"updated_at"`
}

// Relation names what a principal is to an object.
type Relation struct {
	Relation string `json:"relation"`
}

// Grant is a relation that somebody gave.
type Grant struct {
	Relation  string `json:"relation"`
	Seq       uint64 `json:"seq"`
	CreatedBy string `json:"created_by,omitempty"`
}

// Self is whom the plane takes a caller for.
type Self struct {
	ID        string   `json:"id"`
	Kind      string   `json:"kind,omitempty"`
	Relations []string `json:"relations"`
}

// AuditEntry is one event of the log: who wrote what.
type AuditEntry struct {
	Seq           uint64    `json:"seq"`
	Time          time.Time `json:"time"`
	Principal     string    `json:"principal,omitempty"`
	CorrelationID string    `json:"correlation_id,omitempty"`
	Via           string    `json:"via,omitempty"` // nats: not the API
	// What an event says that did not come by way of the API. Nobody vouches for it.
	Claimed              string `json:"claimed_principal,omitempty"`
	ClaimedCorrelationID string `json:"claimed_correlation_id,omitempty"`
	Type                 string `json:"type"`
	Subject              string `json:"subject"`
	EventID              string `json:"event_id"`
	Detail               string `json:"detail,omitempty"`
	Rejected             string `json:"rejected,omitempty"`
}
