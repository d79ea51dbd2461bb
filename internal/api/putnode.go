package api

import (
	"cmp"
	"errors"
	"net/http"

	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

// node answers with a node.
func (c *call) node(status int, n projector.NodeInfo) error {
	c.w.Header().Set("ETag", versionTag(n.Version))
	return c.json(status, showNode(n))
}

func (h *nodeHandlers) put(c *call) error {
	project, id, err := c.pathProjectNode()
	if err != nil {
		return err
	}
	facts, err := decoded(c, policy.DecodeFacts)
	if err != nil {
		return err
	}
	only, err := c.condition()
	if err != nil {
		return err
	}
	e := policy.NodeUpdated{Project: project, Node: id, Labels: facts.Labels, Addresses: facts.Addresses}
	if e.ID, err = h.writes.id(c, project, "put:"+string(id)); err != nil {
		return err
	}
	if seq, created, ok := h.writes.madeBefore(c, e); ok {
		if _, err := h.writes.await(c, e, seq); err != nil {
			return err
		}
		return h.answer(c, e, seq, created)
	}
	return h.state(c, e, facts, only)
}

// state gives a node the facts of e, unless it has them.
func (h *nodeHandlers) state(c *call, e policy.NodeUpdated, facts policy.Facts, only condition) error {
	var had projector.NodeInfo
	var known bool
	check := func(v *projector.View) error {
		had, known = v.Node(e.Node)
		if err := h.only(c, v, e, only); err != nil {
			return err
		}
		switch {
		case !known:
			return errUnknown
		case had.Project == e.Project && sameFacts(had, facts):
			return errUnchanged
		}
		return h.writes.owned(v, e)
	}
	commit := h.atOnce
	if only.given() {
		commit = h.asSeen
	}
	v, err := commit(c, e, check)
	if errors.Is(err, errUnchanged) {
		return c.node(http.StatusOK, had)
	}
	if err != nil {
		return err
	}
	return h.answer(c, e, v.Seq, !known)
}

// atOnce writes e once check has passed.
func (h *nodeHandlers) atOnce(c *call, e policy.NodeUpdated, check func(v *projector.View) error) (projector.Verdict, error) {
	err := h.reads.check(c, check)
	if err != nil && !errors.Is(err, errUnknown) {
		return projector.Verdict{}, err
	}
	return h.writes.commit(c, e, errors.Is(err, errUnknown))
}

// asSeen writes e if nothing comes between check and the log.
func (h *nodeHandlers) asSeen(c *call, e policy.NodeUpdated, check func(v *projector.View) error) (projector.Verdict, error) {
	return h.writes.provided(c, e, func(v *projector.View) error {
		if err := check(v); !errors.Is(err, errUnknown) {
			return err
		}
		return nil
	})
}

// only holds the condition of a write against the node as it is. A write that was
// made before under its key needs none (RFC 9110, 13.1.1), and what belongs to
// another project is refused for that.
func (h *nodeHandlers) only(c *call, v *projector.View, e policy.NodeUpdated, only condition) error {
	had, known := v.Node(e.Node)
	switch {
	case !only.given(), c.key != "" && v.WouldAccept(e, h.writes.clock()).Duplicate:
		return nil
	case !known:
		return cmp.Or(h.writes.owned(v, e), only.holds(""))
	case had.Project != e.Project:
		return h.writes.owned(v, e)
	}
	return only.holds(versionTag(had.Version))
}

// answer shows the facts that e gave at seq, whatever came after.
func (h *nodeHandlers) answer(c *call, e policy.NodeUpdated, seq uint64, created bool) error {
	n := projector.NodeInfo{
		Node:    policy.Node{ID: e.Node, Project: e.Project, Labels: e.Labels, Addresses: e.Addresses},
		Version: seq,
	}
	h.model.Read(func(v *projector.View) {
		if now, ok := v.Node(e.Node); ok && now.Version == seq {
			n = now
		}
	})
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	return c.node(status, n)
}

// owned refuses to write about another project's node.
func (w *writes) owned(v *projector.View, e policy.NodeUpdated) error {
	if w.refusal(v, e) == projector.CodeNodeIDTaken {
		return problem(http.StatusConflict, projector.CodeNodeIDTaken, "node id %s belongs to another project", e.Node)
	}
	return nil
}

func sameFacts(n projector.NodeInfo, f policy.Facts) bool {
	return n.Labels.Equal(f.Labels) && n.Addresses.Equal(f.Addresses)
}
