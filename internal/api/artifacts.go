package api

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

const (
	patternNodeArtifacts = "/v1/nodes/{node}/artifacts"
	patternRelease       = "/v1/projects/{project}/artifacts:release"
	patternReleases      = "/v1/projects/{project}/artifacts"
	patternReleased      = "/v1/projects/{project}/artifacts/{node}"
	patternArtifact      = "/v1/projects/{project}/artifacts/{node}/{kind}/{name}"
	patternRetes         = "/v1/projects/{project}/retes"
	cursorReleases       = "a"
	paramRete            = "rete"
)

// artifactHandlers serve releases, and the signed artifacts that nodes hold.
type artifactHandlers struct {
	model      views
	reads      *reads
	relay      positions
	writes     *writes
	event      func(ctx context.Context, seq uint64) (streams.Message, error)
	maxMessage int
}

func (h *artifactHandlers) routes() []Route {
	return slices.Concat(h.nodeRoutes(), h.releaseRoutes(), h.projectRoutes())
}

func (h *artifactHandlers) nodeRoutes() []Route {
	return []Route{
		{
			Method: http.MethodGet, Pattern: patternNodeArtifacts, ID: "listNodeArtifacts", Tag: "node", Needs: access.ReadNode,
			Summary:  "List the signed artifacts that a node must hold, by kind and name",
			Params:   []Param{minSeqParam},
			Answers:  jsonAnswer(http.StatusOK, resource.Items[resource.Artifact]{}, HeaderEventID, HeaderLogSeq),
			Problems: readProblems(CodeNodeNotFound, CodeStarting), serve: h.ofNode,
		},
	}
}

func (h *artifactHandlers) releaseRoutes() []Route {
	return []Route{
		{
			Method: http.MethodPost, Pattern: patternRelease, ID: "releaseArtifacts", Tag: "artifacts", Needs: access.OperateProject,
			Summary:  "Release the artifacts of many nodes, a JSON line each, and wait for the verdicts",
			Params:   writeParams(),
			BodyType: mediaNDJSON, Body: resource.ReleaseLine{},
			Answers:  jsonAnswer(http.StatusOK, resource.BatchResult{}),
			Problems: linesProblems(),
			serve:    h.release,
		},
		{
			Method: http.MethodGet, Pattern: patternReleases, ID: "listReleases", Tag: "artifacts", Needs: access.SeeProject,
			Summary:  "List what a project released, by node",
			Params:   []Param{limitParam, cursorParam},
			Answers:  jsonAnswer(http.StatusOK, resource.Page[resource.Release]{}),
			Problems: []string{CodeBadCursor}, serve: h.list,
		},
		{
			Method: http.MethodGet, Pattern: patternReleased, ID: "getRelease", Tag: "artifacts", Needs: access.SeeProject,
			Summary: "Read the artifacts that a project released for a node, now or at an older version",
			Params: []Param{
				querySeq("version", "The newest release whose version is at most this; what the node holds when absent. Without a rete, of the node's first one."),
				queryText(paramRete, "Of this rete alone, where the node is of several."),
			},
			Answers: jsonAnswer(http.StatusOK, resource.Items[resource.Artifact]{}), Problems: readProblems(CodeReleaseNotFound),
			serve: h.get,
		},
	}
}

func (h *artifactHandlers) projectRoutes() []Route {
	return []Route{
		{
			Method: http.MethodDelete, Pattern: patternArtifact, ID: "withdrawArtifact", Tag: "artifacts", Needs: access.OperateProject,
			Summary: "Withdraw one artifact of a node",
			Params:  writeParams(queryText(paramRete, "Of this rete, where the node is of several; its first one when absent.")),
			Answers: noContent(), Problems: writeProblems(CodeArtifactNotFound),
			serve: h.withdraw,
		},
		{
			Method: http.MethodGet, Pattern: patternRetes, ID: "listRetes", Tag: "artifacts", Needs: access.SeeProject,
			Summary: "List a project's retes and whose signatures count for them",
			Answers: jsonAnswer(http.StatusOK, resource.Items[resource.Rete]{}), serve: h.retes,
		},
	}
}

func (h *artifactHandlers) ofNode(c *call) error {
	id, err := c.pathNode()
	if err != nil {
		return err
	}
	position, err := h.reads.position(c, h.relay)
	if err != nil {
		return err
	}
	var at uint64
	out := resource.Items[resource.Artifact]{}
	err = h.reads.check(c, func(v *projector.View) (err error) {
		at = v.Seq()
		all, ok := v.Releases().Held(id)
		if !ok {
			return nodeNotFound(id)
		}
		out.Items, err = documents(v, all)
		return err
	})
	if err != nil {
		return err
	}
	header := c.w.Header()
	header.Set(HeaderEventID, position.String())
	header.Set(HeaderLogSeq, strconv.FormatUint(at, 10))
	return c.json(http.StatusOK, out)
}

// documents are the artifacts that a node holds.
func documents(v *projector.View, all []projector.ReleaseInfo) ([]resource.Artifact, error) {
	out := []resource.Artifact{}
	for _, r := range all {
		for _, a := range r.Artifacts {
			doc, err := v.Releases().Document(a.Fingerprint)
			if err != nil {
				return nil, fmt.Errorf("artifact %s %s of node %s: %w", a.Kind, a.Name, r.Node, err)
			}
			out = append(out, resource.Artifact{
				Kind: a.Kind, Name: a.Name, Rete: besideOf(r), Version: r.Version, Fingerprint: a.Fingerprint.String(), Document: string(doc),
			})
		}
	}
	return out, nil
}

func (h *artifactHandlers) withdraw(c *call) error {
	project, id, err := c.pathProjectNode()
	if err != nil {
		return err
	}
	e := policy.ArtifactWithdrawn{Project: project, Node: id, Kind: c.r.PathValue("kind"), Name: c.r.PathValue("name")}
	for _, field := range []string{"kind", "name"} {
		if !policy.ValidArtifactPart(c.r.PathValue(field)) {
			return broken(http.StatusUnprocessableEntity, policy.CodeInvalidArtifactName, "/"+field, "the %s of an artifact is a DNS label", field)
		}
	}
	rete, role := c.r.URL.Query().Get(paramRete), []string{string(id), e.Kind, e.Name}
	if rete != "" {
		role = append(role, rete)
	}
	if e.ID, err = h.writes.id(c, project, "withdraw:"+strings.Join(role, ".")); err != nil {
		return err
	}
	if rete != "" { // it may be the node's since a moment
		if err := h.reads.catchUp(c, 0); err != nil {
			return err
		}
	}
	h.model.Read(func(v *projector.View) {
		all, _ := v.Releases().Of(project, id)
		if all = ofRete(all, rete); rete != "" && len(all) == 1 {
			e.Rete = besideOf(all[0])
		}
	})
	return h.writes.remove(c, e, func(v *projector.View) error {
		all, _ := v.Releases().Of(project, id)
		for _, r := range all {
			if rete == "" && r.Further || rete != "" && r.Rete != rete {
				continue
			}
			if slices.ContainsFunc(r.Artifacts, func(a projector.ArtifactInfo) bool { return a.Kind == e.Kind && a.Name == e.Name }) {
				return nil
			}
		}
		return problem(http.StatusNotFound, CodeArtifactNotFound, "node %s holds no artifact %s %s of this project", id, e.Kind, e.Name)
	})
}

func (h *artifactHandlers) retes(c *call) error {
	project, err := c.pathID("project")
	if err != nil {
		return err
	}
	out := resource.Items[resource.Rete]{Items: []resource.Rete{}}
	h.model.Read(func(v *projector.View) {
		for _, r := range v.Releases().Retes(project) {
			rete := resource.Rete{Name: r.Name, Version: r.Version, Nodes: r.Nodes}
			for _, s := range r.Signers {
				rete.Signers = append(rete.Signers, resource.Signer{SPIFFE: s.SPIFFE, Key: base64.StdEncoding.EncodeToString(s.Key)})
			}
			out.Items = append(out.Items, rete)
		}
	})
	return c.json(http.StatusOK, out)
}
