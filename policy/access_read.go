package policy

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// DecodePrincipal reads a principal's document. The error is Violations, every
// fault at once.
func DecodePrincipal(body []byte) (p Principal, err error) {
	faults := read(body, func(r *reader) { p = readPrincipal(r) })
	return p, faults.orNil()
}

// DecodeRelation reads {"relation":"object#name"}. The error is Violations.
func DecodeRelation(body []byte) (rel Relation, err error) {
	faults := read(body, func(r *reader) {
		seen := false
		ok := r.object("a relation", func(name []byte) bool {
			if string(name) != "relation" {
				return false
			}
			seen = true
			rel = readRelation(r)
			return true
		})
		if ok && !seen {
			r.note("/relation", CodeMissing, "relation is required")
		}
	})
	return rel, faults.orNil()
}

func readPrincipalID(r *reader) PrincipalID {
	b, ok := r.text("a principal id string")
	if !ok {
		return ""
	}
	if !validNodeID(b) {
		r.note("", CodeInvalidPrincipalID, principalIDDetail(b))
		return ""
	}
	return PrincipalID(b)
}

func readRelation(r *reader) Relation {
	b, ok := r.text("a relation string")
	if !ok {
		return Relation{}
	}
	rel, err := ParseRelation(string(b))
	var faults Violations
	if errors.As(err, &faults) {
		r.note("", faults[0].Code, faults[0].Detail)
	}
	return rel
}

func readPrincipal(r *reader) (p Principal) {
	kind := false
	ok := r.object("a principal", func(name []byte) bool {
		switch string(name) {
		case "kind":
			kind = true
			p.Kind = readPrincipalKind(r)
		case "display_name":
			p.DisplayName = readDisplayName(r)
		case "tokens":
			p.Tokens = listOf(r, "tokens", readToken)
		case "spiffe_ids":
			p.SPIFFE = listOf(r, "SPIFFE IDs", readSPIFFE)
		case "oidc":
			p.OIDC = listOf(r, "OIDC identities", readOIDC)
		case "bootstrap":
			p.Bootstrap = listOf(r, "bootstrap tokens", readBootstrap)
		case "registration":
			p.Registration = readRegistration(r)
		default:
			return false
		}
		return true
	})
	if ok && !kind {
		r.note("/kind", CodeMissing, "kind is required")
	}
	if ok && kind && p.Kind != Agent && (p.Bootstrap != nil || p.Registration != nil) {
		r.note("/kind", CodeUnknownKind, "bootstrap and registration belong to a principal of kind node")
	}
	return p
}

// listOf reads an array of at most MaxTokens.
func listOf[T any](r *reader, what string, one func(*reader) T) (all []T) {
	n := 0
	ok := r.array("an array of "+what, func(int) {
		if n++; n > MaxTokens {
			r.skip()
			return
		}
		all = append(all, one(r))
	})
	if ok && n > MaxTokens {
		r.note("", CodeTooManyCredentials, tooMany(what, n, MaxTokens))
	}
	return all
}

func readPrincipalKind(r *reader) PrincipalKind {
	b, ok := r.text("a string")
	switch k := PrincipalKind(b); {
	case !ok:
	case k == Person, k == Service, k == Agent:
		return k
	default:
		r.note("", CodeUnknownKind, fmt.Sprintf("%.64q is no kind of principal; use person, service or node", b))
	}
	return ""
}

func readToken(r *reader) (t Token) {
	var id, hash bool
	ok := r.object("a token", func(name []byte) bool {
		switch string(name) {
		case "id":
			id = true
			t.ID = r.uuid()
		case "sha256":
			hash = true
			t.Hash = r.digest("the SHA-256 of the token")
		case "expires_at":
			t.Expires = r.time()
		default:
			return false
		}
		return true
	})
	if ok && !id {
		r.note("/id", CodeMissing, "id is required")
	}
	if ok && !hash {
		r.note("/sha256", CodeMissing, "sha256 is required")
	}
	return t
}

// readSPIFFE reads spiffe://<trust domain>/<path>, exactly as it stands in a
// certificate: ids are compared as texts.
func readSPIFFE(r *reader) string {
	s := r.line(MaxIdentity, true)
	if s == "" {
		return ""
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "spiffe" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		u.Port() != "" || strings.ToLower(u.Host) != u.Host || !strings.HasPrefix(s, "spiffe://") {
		r.note("", CodeInvalidSPIFFE, fmt.Sprintf("%.120q is no SPIFFE ID; write spiffe://<trust domain>/<path>", s))
		return ""
	}
	return s
}

func readOIDC(r *reader) (o OIDCIdentity) {
	ok := r.object("an OIDC identity", func(name []byte) bool {
		switch string(name) {
		case "issuer":
			o.Issuer = r.line(MaxIdentity, true)
		case "subject":
			o.Subject = r.line(MaxIdentity, true)
		default:
			return false
		}
		return true
	})
	if ok && (o.Issuer == "" || o.Subject == "") && len(r.faults) == 0 {
		r.note("", CodeMissing, "issuer and subject are required")
	}
	return o
}
