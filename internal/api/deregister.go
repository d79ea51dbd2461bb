package api

import (
	"net/http"
	"slices"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

const patternDeregister = "/v1/nodes/{node}/deregister"

func (h *registerHandlers) deregisterRoute() Route {
	return Route{
		Method: http.MethodPost, Pattern: patternDeregister, ID: "deregisterNode", Tag: "node", Needs: access.ActAsNode, Lenient: true,
		Summary: "End a node's registration, and the bearer token that it gave; the node and its rules stay",
		Params:  writeParams(), Answers: noContent(),
		Problems: writeProblems(append(readProblems(CodeNodeNotFound), CodeContended)...), serve: h.deregister,
	}
}

// deregister ends the registration that a node's agent has now. One that has none
// gets the same answer, and nothing is written.
func (h *registerHandlers) deregister(c *call) error {
	node, err := c.pathNode()
	if err != nil {
		return err
	}
	if err := h.writes.gate.check(); err != nil {
		return err
	}
	id := policy.PrincipalID(node)
	err = h.writes.insist(c, func(bool) error {
		var who projector.Principal
		var there bool
		h.model.Read(func(v *projector.View) {
			who, _ = v.Principal(id)
			there = v.HasNode(node)
		})
		switch {
		case who.Document != nil && who.Document.Registration != nil:
			return h.endRegistration(c, who)
		case !there:
			return nodeNotFound(node)
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// endRegistration states a principal without its registration and the bearer token
// that this gave. What else proves the node stays, and so does that its bootstrap
// token was used.
func (h *registerHandlers) endRegistration(c *call, who projector.Principal) error {
	doc := *who.Document
	doc.Tokens = slices.DeleteFunc(slices.Clone(doc.Tokens), func(t policy.Token) bool { return t.ID == doc.Registration.Token })
	doc.Registration = nil
	e := policy.PrincipalUpdated{Principal: who.ID, Expected: &who.Version, CreatedBy: c.principal, Document: doc}
	var err error
	if e.ID, err = h.writes.id(c, uuid.Nil, "deregister:"+string(who.ID)); err != nil {
		return err
	}
	_, err = h.writes.commit(c, e, false)
	return err
}
