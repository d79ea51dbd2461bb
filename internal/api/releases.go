package api

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/policy"
)

func (h *artifactHandlers) release(c *call) error {
	b := &batch{model: h.model, reads: h.reads, writes: h.writes, c: c, maxLine: 2 * h.maxMessage, maxMessage: h.maxMessage, kind: policy.TypeArtifactReleased}
	b.one = b.release
	return b.serve()
}

// eventRoom is more than an event has beside its artifacts and its pin.
const eventRoom = 4 << 10

// release makes an event of one line, if it changes anything.
func (b *batch) release(line []byte) error {
	var rete string
	e, err := policy.DecodeReleaseLine(line)
	if err == nil {
		rete, err = projector.CheckRelease(e)
	}
	if err != nil {
		b.rejectInvalid(e.Node, err)
		return nil
	}
	size := sizeOf(e)
	if size > b.maxMessage {
		b.reject(b.lines, e.Node, CodeArtifactTooLarge,
			fmt.Sprintf("the node's artifacts have %d bytes together, and a message of this plane has room for %d: raise max_payload of the NATS server, or divide the node",
				size-eventRoom, b.maxMessage-eventRoom))
		return nil
	}
	_, pending := b.pending(e.Node)
	_, given := b.rehearsedFacts(e.Node, policy.Facts{})
	if !pending && !given && b.released(e) {
		return nil
	}
	b.model.Read(func(v *projector.View) {
		if v.Releases().Joins(e.Node, rete) {
			e.Rete = rete
		}
	})
	e.Project = b.project
	if e.ID, err = b.writes.id(b.c, b.project, "release:"+strconv.Itoa(b.lines)); err != nil {
		return err
	}
	b.append(line, &lineWrite{line: b.lines, node: e.Node}, e, size)
	return nil
}

// sizeOf is about how many bytes the event has.
func sizeOf(e policy.ArtifactReleased) int {
	size := eventRoom
	for _, doc := range e.Artifacts {
		size += len(doc) + 1
	}
	return size
}

// released notes a line that changes nothing: the node holds that already, or
// belongs to another project.
func (b *batch) released(e policy.ArtifactReleased) bool {
	var taken bool
	var now []projector.ReleaseInfo
	b.model.Read(func(v *projector.View) { now, taken = v.Releases().Of(b.project, e.Node) })
	if taken {
		b.reject(b.lines, e.Node, projector.CodeNodeIDTaken, fmt.Sprintf("node id %s belongs to another project; a node of several retes is given the artifacts of each in its own project", e.Node))
		return true
	}
	if slices.ContainsFunc(now, func(r projector.ReleaseInfo) bool { return projector.SameRelease(r, e) }) {
		b.result.Unchanged++
		return true
	}
	return false
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
	h.model.Read(func(v *projector.View) { items, err = v.Releases().List(project, releasePlace(after), limit+1) })
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, cut(items, limit, cursorReleases, releaseCursor, showRelease))
}

// releaseCursor is behind a release, and releasePlace reads it: a node, and the rete
// of a release beside the node's first.
func releaseCursor(r projector.ReleaseInfo) string {
	if r.Further {
		return string(r.Node) + "/" + r.Rete
	}
	return string(r.Node)
}

func releasePlace(cursor string) projector.ReleasePlace {
	node, beside, _ := strings.Cut(cursor, "/")
	return projector.ReleasePlace{Node: policy.NodeID(node), Further: beside}
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
	var of projector.ReleaseInfo
	rete := c.r.URL.Query().Get(paramRete)
	out := resource.Items[resource.Artifact]{}
	err = h.reads.check(c, func(v *projector.View) (err error) {
		all, _ := v.Releases().Of(project, id)
		if all = ofRete(all, rete); len(all) == 0 {
			return problem(http.StatusNotFound, CodeReleaseNotFound, "nothing was released for node %s here", id)
		}
		if version == 0 {
			out.Items, err = documents(v, all)
			return err
		}
		of = all[0]
		var ok bool
		if seq, ok, err = v.Releases().At(project, id, besideOf(of), version); err == nil && !ok {
			err = noneBelow(version, id)
		}
		return err
	})
	if err == nil && seq > 0 {
		out.Items, err = h.releasedAt(c, seq, besideOf(of), rete)
	}
	if errors.Is(err, errAnotherRete) {
		err = noneBelow(version, id)
	}
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, out)
}

func noneBelow(version uint64, id policy.NodeID) error {
	return problem(http.StatusNotFound, CodeReleaseNotFound, "nothing of version %d or below was released for node %s", version, id)
}

// ofRete keeps what is of a rete; empty: everything.
func ofRete(all []projector.ReleaseInfo, rete string) []projector.ReleaseInfo {
	return slices.DeleteFunc(all, func(r projector.ReleaseInfo) bool { return rete != "" && r.Rete != rete })
}

// besideOf is the rete of a release beside the node's first; empty: it is the first.
func besideOf(r projector.ReleaseInfo) string {
	if r.Further {
		return r.Rete
	}
	return ""
}

// errAnotherRete: a node's first rete came in the place of another, which the release is of.
var errAnotherRete = errors.New("the release is of another rete")

// releasedAt reads the artifacts of a release out of the log, which must be of the rete that
// is asked for; empty: of any.
func (h *artifactHandlers) releasedAt(c *call, seq uint64, beside, rete string) ([]resource.Artifact, error) {
	if h.event == nil {
		return nil, problem(http.StatusServiceUnavailable, CodeLogUnavailable, "this worker cannot read the log")
	}
	m, err := h.event(c.r.Context(), seq)
	if err != nil {
		return nil, unreadableLog(err)
	}
	e, err := policy.Decode(m.Body)
	ev, ok := e.(policy.ArtifactReleased)
	if err != nil || !ok {
		return nil, fmt.Errorf("event %d is no release: %w", seq, errors.Join(err, errNoRelease))
	}
	of, all, err := projector.ReleasedArtifacts(ev)
	if err != nil {
		return nil, err
	}
	if rete != "" && of != rete {
		return nil, errAnotherRete
	}
	out := make([]resource.Artifact, len(all))
	for i, a := range all {
		out[i] = resource.Artifact{Kind: a.Kind, Name: a.Name, Rete: beside, Version: a.Version, Fingerprint: a.Fingerprint.String(), Document: string(a.Document)}
	}
	return out, nil
}

var errNoRelease = errors.New("the read model is not of this log")
