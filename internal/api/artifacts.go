package api

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
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
)

// eventRoom is more than an event has beside its artifacts and its pin.
const eventRoom = 4 << 10

// artifactHandlers serve releases, and the signed artifacts that nodes hold.
type artifactHandlers struct {
	model views
	reads *reads
	relay interface {
		Position() policy.EventID
		Ready() error
	}
	writes     *writes
	event      func(ctx context.Context, seq uint64) (streams.Message, error)
	maxMessage int
}

func (h *artifactHandlers) routes() []Route {
	return []Route{
		{
			Method: http.MethodGet, Pattern: patternNodeArtifacts, ID: "listNodeArtifacts", Tag: "node", Needs: access.ReadNode,
			Summary: "List the signed artifacts that a node must hold, by kind and name",
			Params:  []Param{querySeq("min_seq", "Answer once the fold has passed this log sequence; the log's head when absent.")},
			Answers: []Answer{{
				Status: http.StatusOK, MediaType: mediaJSON, Body: resource.Items[resource.Artifact]{},
				Headers: []string{HeaderEventID, HeaderLogSeq},
			}},
			Problems: readProblems(CodeNodeNotFound, CodeStarting), serve: h.ofNode,
		},
		{
			Method: http.MethodPost, Pattern: patternRelease, ID: "releaseArtifacts", Tag: "artifacts", Needs: access.OperateProject,
			Summary:  "Release the artifacts of many nodes, a JSON line each, and wait for the verdicts",
			Params:   writeParams(),
			BodyType: mediaNDJSON, Body: resource.ReleaseLine{},
			Answers:  jsonAnswer(http.StatusOK, resource.BatchResult{}),
			Problems: projectProblems(CodeUnsupportedMedia, CodeBodyTooLarge, policy.CodeMalformedJSON, CodeTooManyRejections),
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
			Params:  []Param{querySeq("version", "The newest release whose version is at most this; what the node holds when absent.")},
			Answers: jsonAnswer(http.StatusOK, resource.Items[resource.Artifact]{}), Problems: readProblems(CodeReleaseNotFound),
			serve: h.get,
		},
		{
			Method: http.MethodDelete, Pattern: patternArtifact, ID: "withdrawArtifact", Tag: "artifacts", Needs: access.OperateProject,
			Summary: "Withdraw one artifact of a node",
			Params:  writeParams(), Answers: noContent(),
			Problems: writeProblems(CodeArtifactNotFound),
			serve:    h.withdraw,
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
	if err := h.reads.fresh(c); err != nil {
		return err
	}
	if err := h.relay.Ready(); err != nil {
		return starting(err)
	}
	position := h.relay.Position() // before the rows, see stateHandlers.state
	var at uint64
	out := resource.Items[resource.Artifact]{}
	err = h.reads.check(c, func(v *projector.View) (err error) {
		at = v.Seq()
		r, ok := v.Releases().Held(id)
		if !ok {
			return nodeNotFound(id)
		}
		out.Items, err = documents(v, r)
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
func documents(v *projector.View, r projector.ReleaseInfo) ([]resource.Artifact, error) {
	out := make([]resource.Artifact, 0, len(r.Artifacts))
	for _, a := range r.Artifacts {
		doc, err := v.Releases().Document(a.Fingerprint)
		if err != nil {
			return nil, fmt.Errorf("artifact %s %s of node %s: %w", a.Kind, a.Name, r.Node, err)
		}
		out = append(out, resource.Artifact{Kind: a.Kind, Name: a.Name, Version: r.Version, Fingerprint: a.Fingerprint.String(), Document: string(doc)})
	}
	return out, nil
}

func (h *artifactHandlers) release(c *call) error {
	b := &batch{model: h.model, reads: h.reads, writes: h.writes, c: c, maxLine: 2 * h.maxMessage, maxMessage: h.maxMessage, kind: policy.TypeArtifactReleased}
	b.one = b.release
	return b.serve()
}

// release makes an event of one line, if it changes anything.
func (b *batch) release(line []byte) error {
	e, err := policy.DecodeReleaseLine(line)
	if err == nil {
		err = projector.CheckRelease(e)
	}
	if err != nil {
		b.rejectInvalid(e.Node, err)
		return nil
	}
	size := eventRoom
	for _, doc := range e.Artifacts {
		size += len(doc) + 1
	}
	if size > b.maxMessage {
		b.reject(b.lines, e.Node, CodeArtifactTooLarge,
			fmt.Sprintf("the node's artifacts have %d bytes together, and a message of this plane has room for %d: raise max_payload of the NATS server, or divide the node",
				size-eventRoom, b.maxMessage-eventRoom))
		return nil
	}
	if _, pending := b.pending(e.Node); !pending {
		var had, taken bool
		var now projector.ReleaseInfo
		b.model.Read(func(v *projector.View) { now, had, taken = v.Releases().Of(b.project, e.Node) })
		if taken {
			b.reject(b.lines, e.Node, projector.CodeNodeIDTaken, fmt.Sprintf("node id %s belongs to another project", e.Node))
			return nil
		}
		if had && projector.SameRelease(now, e) {
			b.result.Unchanged++
			return nil
		}
	}
	e.Project = b.project
	if e.ID, err = b.writes.id(b.c, b.project, "release:"+strconv.Itoa(b.lines)); err != nil {
		return err
	}
	b.append(line, &lineWrite{line: b.lines, node: e.Node}, e, size)
	return nil
}

func (h *artifactHandlers) list(c *call) error {
	project, err := c.pathID("project")
	if err != nil {
		return err
	}
	limit, after, err := c.pageOf(cursorReleases)
	if err != nil {
		return err
	}
	var items []projector.ReleaseInfo
	h.model.Read(func(v *projector.View) { items, err = v.Releases().List(project, policy.NodeID(after), limit+1) })
	if err != nil {
		return err
	}
	end := func(r projector.ReleaseInfo) string { return string(r.Node) }
	return c.json(http.StatusOK, cut(items, limit, cursorReleases, end, showRelease))
}

func showRelease(r projector.ReleaseInfo) resource.Release {
	out := resource.Release{
		NodeID: string(r.Node), Rete: r.Rete, Version: r.Version, Seq: r.Seq, ReleasedAt: r.Time, Registered: r.Registered,
		Artifacts: make([]resource.ReleaseArtifact, 0, len(r.Artifacts)),
	}
	for _, a := range r.Artifacts {
		out.Artifacts = append(out.Artifacts, resource.ReleaseArtifact{Kind: a.Kind, Name: a.Name, Fingerprint: a.Fingerprint.String()})
	}
	return out
}

func (h *artifactHandlers) get(c *call) error {
	project, id, err := c.pathProjectNode()
	if err != nil {
		return err
	}
	version, err := c.queryUint("version", 0)
	if err != nil {
		return err
	}
	var seq uint64
	out := resource.Items[resource.Artifact]{}
	err = h.reads.check(c, func(v *projector.View) (err error) {
		r, ok, _ := v.Releases().Of(project, id)
		switch {
		case !ok:
			return problem(http.StatusNotFound, CodeReleaseNotFound, "nothing was released for node %s here", id)
		case version == 0:
			out.Items, err = documents(v, r)
			return err
		}
		if seq, ok, err = v.Releases().At(project, id, version); err == nil && !ok {
			err = problem(http.StatusNotFound, CodeReleaseNotFound, "nothing of version %d or below was released for node %s", version, id)
		}
		return err
	})
	if err == nil && seq > 0 {
		out.Items, err = h.releasedAt(c, seq)
	}
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, out)
}

// releasedAt reads the artifacts of a release out of the log.
func (h *artifactHandlers) releasedAt(c *call, seq uint64) ([]resource.Artifact, error) {
	if h.event == nil {
		return nil, problem(http.StatusServiceUnavailable, CodeLogUnavailable, "this worker cannot read the log")
	}
	m, err := h.event(c.r.Context(), seq)
	if err != nil {
		return nil, problem(http.StatusServiceUnavailable, CodeLogUnavailable, "the log did not give event %d: %v", seq, err)
	}
	e, err := policy.Decode(m.Body)
	ev, ok := e.(policy.ArtifactReleased)
	if err != nil || !ok {
		return nil, fmt.Errorf("event %d is no release: %w", seq, errors.Join(err, errNoRelease))
	}
	all, err := projector.ReleasedArtifacts(ev)
	if err != nil {
		return nil, err
	}
	out := make([]resource.Artifact, len(all))
	for i, a := range all {
		out[i] = resource.Artifact{Kind: a.Kind, Name: a.Name, Version: a.Version, Fingerprint: a.Fingerprint.String(), Document: string(a.Document)}
	}
	return out, nil
}

var errNoRelease = errors.New("the read model is not of this log")

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
	if e.ID, err = h.writes.id(c, project, "withdraw:"+strings.Join([]string{string(id), e.Kind, e.Name}, ".")); err != nil {
		return err
	}
	return h.writes.remove(c, e, func(v *projector.View) error {
		r, _, _ := v.Releases().Of(project, id)
		for _, a := range r.Artifacts {
			if a.Kind == e.Kind && a.Name == e.Name {
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
