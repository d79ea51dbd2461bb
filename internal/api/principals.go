package api

import (
	"encoding/hex"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

const (
	tagAccess         = "access"
	patternPrincipals = "/v1/access/principals"
	patternPrincipal  = "/v1/access/principals/{principal}"
	patternRelations  = "/v1/access/principals/{principal}/relations"
	cursorPrincipals  = "a"
)

// Codes of principals: the log knows no such one; another lists the same
// credential; what the file of serve --access gives, no request takes away.
const (
	CodePrincipalNotFound = "principal_not_found"
	CodeCredentialTaken   = "credential_taken"
	CodeGivenByFile       = "given_by_file"
)

// principalHandlers serve principals and their relations.
type principalHandlers struct {
	model  views
	reads  *reads
	writes *writes
	access interface { // nil: access is not configured
		Taken(id policy.PrincipalID, d policy.Principal) (by policy.PrincipalID, pointer string)
		Listed(id policy.PrincipalID) bool
		Filed(id policy.PrincipalID, rel policy.Relation) bool
	}
}

func (h *principalHandlers) routes() []Route {
	return slices.Concat(h.readRoutes(), h.writeRoutes(), h.relationRoutes())
}

func (h *principalHandlers) readRoutes() []Route {
	show := jsonAnswer(http.StatusOK, resource.Principal{}, "ETag")
	return []Route{
		{
			Method: http.MethodGet, Pattern: "/v1/access/self", ID: "getSelf", Tag: tagAccess, Needs: access.Known, early: true,
			Summary: "Say whom the plane takes the caller for",
			Answers: jsonAnswer(http.StatusOK, resource.Self{}), serve: h.self,
		},
		{
			Method: http.MethodGet, Pattern: patternPrincipals, ID: "listPrincipals", Tag: tagAccess, Needs: access.AdminPlane,
			Summary: "List the principals of the log by id", Params: []Param{limitParam, cursorParam},
			Answers: jsonAnswer(http.StatusOK, resource.Page[resource.Principal]{}), Problems: []string{CodeBadCursor},
			serve: h.list,
		},
		{
			Method: http.MethodGet, Pattern: patternPrincipal, ID: "getPrincipal", Tag: tagAccess, Needs: access.AdminPlane,
			Summary: "Read a principal and its relations", Answers: show, Problems: readProblems(CodePrincipalNotFound),
			serve: h.get,
		},
	}
}

func (h *principalHandlers) writeRoutes() []Route {
	show := jsonAnswer(http.StatusOK, resource.Principal{}, "ETag")
	faults := bodyProblems(policy.CodeMissing, policy.CodeUnknownKind, policy.CodeInvalidToken, policy.CodeInvalidUUID, policy.CodeInvalidTime,
		policy.CodeInvalidSPIFFE, policy.CodeTooManyCredentials, policy.CodeInvalidDisplayName, policy.CodeTextTooLong, policy.CodeControlCharacter)
	onlyNew := headerTag(headerIfNoneMatch, "*: only if there is no such principal.")
	return []Route{
		{
			Method: http.MethodPut, Pattern: patternPrincipal, ID: "putPrincipal", Tag: tagAccess, Needs: access.AdminPlane,
			Summary: "State a principal, whole: what it is and what proves it", Params: writeParams(onlyIfMatchParam, onlyNew),
			BodyType: mediaJSON, Body: resource.PrincipalDocument{}, Answers: show,
			Problems: writeProblems(append(faults, CodeBadHeader, CodeKeyReused, CodeCredentialTaken, CodePreconditionFailed)...),
			serve:    h.put,
		},
		{
			Method: http.MethodDelete, Pattern: patternPrincipal, ID: "deletePrincipal", Tag: tagAccess, Needs: access.AdminPlane,
			Summary: "Remove a principal, its credentials and its relations", Params: writeParams(onlyIfMatchParam), Answers: noContent(),
			Problems: writeProblems(CodePrincipalNotFound, CodePreconditionFailed, CodeContended, CodeGivenByFile), serve: h.delete,
		},
	}
}

func (c *call) pathPrincipal() (policy.PrincipalID, error) {
	id, err := policy.ParsePrincipalID(c.r.PathValue("principal"))
	if err != nil {
		return "", invalid(err)
	}
	return id, nil
}

func principalNotFound(id policy.PrincipalID) error {
	return problem(http.StatusNotFound, CodePrincipalNotFound, "the log knows no principal %s", id)
}

func (h *principalHandlers) self(c *call) error {
	out := resource.Self{ID: c.principal, Relations: []string{}}
	if c.who != nil {
		out.Kind = string(c.who.Kind)
		for _, r := range c.who.Relations() {
			out.Relations = append(out.Relations, r.String())
		}
	}
	return c.json(http.StatusOK, out)
}

func (h *principalHandlers) list(c *call) error {
	limit, after, err := c.pageOf(cursorPrincipals)
	if err != nil {
		return err
	}
	var items []projector.Principal
	h.model.Read(func(v *projector.View) { items = v.Principals(policy.PrincipalID(after), limit+1) })
	end := func(x projector.Principal) string { return string(x.ID) }
	return c.json(http.StatusOK, cut(items, limit, cursorPrincipals, end, showPrincipal))
}

// read finds a principal, or says that there is none.
func (h *principalHandlers) read(c *call, id policy.PrincipalID) (found projector.Principal, err error) {
	err = h.reads.check(c, func(v *projector.View) error {
		var ok bool
		if found, ok = v.Principal(id); !ok {
			return principalNotFound(id)
		}
		return nil
	})
	return found, err
}

func (h *principalHandlers) get(c *call) error {
	id, err := c.pathPrincipal()
	if err != nil {
		return err
	}
	return h.answer(c, id)
}

func (h *principalHandlers) answer(c *call, id policy.PrincipalID) error {
	found, err := h.read(c, id)
	if err != nil {
		return err
	}
	c.w.Header().Set("ETag", versionTag(found.Version))
	return c.json(http.StatusOK, showPrincipal(found))
}

func (h *principalHandlers) put(c *call) error {
	id, err := c.pathPrincipal()
	if err != nil {
		return err
	}
	doc, err := decoded(c, policy.DecodePrincipal)
	if err != nil {
		return err
	}
	if !h.named(id, doc.DisplayName) {
		if err := checkName("/display_name", doc.DisplayName); err != nil {
			return err
		}
	}
	only, err := c.condition()
	if err != nil {
		return err
	}
	e := policy.PrincipalUpdated{Principal: id, CreatedBy: c.principal, Document: doc}
	if e.ID, err = h.writes.id(c, uuid.Nil, "put:principal:"+string(id)); err != nil {
		return err
	}
	if e.Expected, err = h.expected(c, e, only); err != nil {
		return err
	}
	if h.checkTaken(id, doc) != nil {
		// Another worker may have taken it from whoever had it.
		if err := h.reads.catchUp(c, 0); err != nil {
			return err
		}
		if err := h.checkTaken(id, doc); err != nil {
			return err
		}
	}
	if _, err := h.writes.commit(c, e, false); err != nil {
		if e.Expected != nil {
			err = outrun(err)
		}
		return err
	}
	return h.answer(c, id)
}

// expected is the version of a principal that a statement is for; 0: there is none,
// nil: whatever it is. A write that was made before under its key needs no condition.
func (h *principalHandlers) expected(c *call, e policy.PrincipalUpdated, only condition) (expected *uint64, err error) {
	if given := c.r.Header.Values(headerIfNoneMatch); len(given) > 0 {
		return onlyIfNew(given)
	}
	if !only.given() {
		return nil, nil
	}
	err = h.reads.check(c, func(v *projector.View) error {
		if c.key != "" && v.WouldAccept(e, h.writes.clock()).Duplicate {
			return nil
		}
		found, there := v.Principal(e.Principal)
		tag := ""
		if there {
			tag = versionTag(found.Version)
		}
		if only.named() && there && found.Document == nil && only.holds(tag) == nil { // of relations alone
			expected = new(uint64)
			return nil
		}
		if c.key == "" || !only.named() { // else the fold compares
			if err := only.holds(tag); err != nil || !only.named() {
				return err
			}
		}
		version, err := only.version(found.Version)
		if err == nil {
			expected = &version
		}
		return err
	})
	return expected, err
}

// onlyIfNew is the version of what there is not, which If-None-Match may ask for, and nothing else.
func onlyIfNew(given []string) (*uint64, error) {
	if len(given) > 1 || strings.TrimSpace(given[0]) != "*" {
		return nil, problem(http.StatusBadRequest, CodeBadHeader, "%s is not * here: who states what is there names it with %s", headerIfNoneMatch, headerIfMatch)
	}
	return new(uint64), nil
}

// named reports whether a principal has the name already: it may keep it.
func (h *principalHandlers) named(id policy.PrincipalID, name string) (so bool) {
	h.model.Read(func(v *projector.View) {
		who, ok := v.Principal(id)
		so = ok && who.Document != nil && who.Document.DisplayName == name
	})
	return so
}

// checkTaken refuses a credential that another principal lists. The fold takes
// it, and whoever shows it is nobody then.
func (h *principalHandlers) checkTaken(id policy.PrincipalID, doc policy.Principal) error {
	if err := h.checkBootstrap(id, doc); err != nil || h.access == nil {
		return err
	}
	by, pointer := h.access.Taken(id, doc)
	if by == "" {
		return nil
	}
	return problem(http.StatusConflict, CodeCredentialTaken, "%s lists what is at %s; it would prove neither of them: take it from %s first", by, pointer, by)
}

// checkBootstrap refuses a bootstrap token that another principal lists. The fold takes it, and
// it registers the first of them by id, though the other was meant, maybe. It also takes one whose
// end its clock does not reach, and takes that for another moment: one that the log has may stay, so
// that it can be revoked.
func (h *principalHandlers) checkBootstrap(id policy.PrincipalID, doc policy.Principal) (err error) {
	first, last := time.Unix(0, math.MinInt64), time.Unix(0, math.MaxInt64)
	h.model.Read(func(v *projector.View) {
		for i, t := range doc.Bootstrap {
			by, had, ok := v.Bootstrap(t.Hash)
			switch {
			case err != nil:
			case ok && by.ID != id:
				err = problem(http.StatusConflict, CodeCredentialTaken, "%s lists the bootstrap token that is at /bootstrap/%d: make another for %s with edict access bootstrap", by.ID, i, id)
			case (t.Expires.Before(first) || t.Expires.After(last)) && !(ok && had.Expires.Equal(t.Expires)):
				err = broken(http.StatusUnprocessableEntity, policy.CodeInvalidTime, fmt.Sprintf("/bootstrap/%d/expires_at", i),
					"a bootstrap token ends from %s to %s", first.UTC().Format(time.DateOnly), last.UTC().Format(time.DateOnly))
			}
		}
	})
	return err
}

func (h *principalHandlers) delete(c *call) error {
	id, err := c.pathPrincipal()
	if err != nil {
		return err
	}
	only, err := c.condition()
	if err != nil {
		return err
	}
	if h.access != nil && h.access.Listed(id) {
		return problem(http.StatusConflict, CodeGivenByFile, "%s is in the file that the plane was started with (serve --access), and stays: take it out there, "+
			"start the plane again, and then remove what the log has of it", id)
	}
	e := policy.PrincipalRemoved{Principal: id, CreatedBy: c.principal}
	if e.ID, err = h.writes.id(c, uuid.Nil, "delete:principal:"+string(id)); err != nil {
		return err
	}
	return h.writes.removeIf(c, e, only, func(v *projector.View) (string, error) {
		found, ok := v.Principal(id)
		if !ok {
			return "", principalNotFound(id)
		}
		return versionTag(found.Version), nil
	})
}

func showPrincipal(p projector.Principal) resource.Principal {
	out := resource.Principal{
		ID: string(p.ID), Relations: make([]resource.Grant, len(p.Relations)), Version: p.Version,
		CreatedBy: p.CreatedBy, CreatedAt: p.CreatedAt, UpdatedAt: p.UpdatedAt,
	}
	for i, g := range p.Relations {
		out.Relations[i] = resource.Grant{Relation: g.Relation.String(), Seq: g.Seq, CreatedBy: g.By}
	}
	if p.Document == nil {
		return out
	}
	out.Kind, out.DisplayName, out.SPIFFE = string(p.Document.Kind), p.Document.DisplayName, p.Document.SPIFFE
	for _, t := range p.Document.Tokens {
		shown := resource.Token{ID: t.ID.String(), SHA256: hex.EncodeToString(t.Hash[:])}
		if !t.Expires.IsZero() {
			shown.Expires = &t.Expires
		}
		out.Tokens = append(out.Tokens, shown)
	}
	for _, o := range p.Document.OIDC {
		out.OIDC = append(out.OIDC, resource.OIDCIdentity(o))
	}
	out.Bootstrap, out.Registration = showBootstrap(p.Document)
	return out
}
