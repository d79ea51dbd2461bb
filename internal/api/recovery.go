package api

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/access"
	"github.com/edictdev/edict/internal/api/openapi"
	"github.com/edictdev/edict/internal/projector"
	"github.com/edictdev/edict/internal/snapshot"
	"github.com/edictdev/edict/policy"
)

// factsPatience is how long a client of facts may read nothing: what it reads
// from is held for it meanwhile.
const factsPatience = 30 * time.Second

// factsAtOnce are so many that the patience begins anew, and that it is looked
// whether anybody waits.
const factsAtOnce = 1024

// recoveryHandlers serve operators who compare a plane with its log.
type recoveryHandlers struct {
	model interface {
		Facts(only policy.NodeID) (seq uint64, facts iter.Seq2[projector.Fact, error])
	}
	gate  *writeGate
	save  func(ctx context.Context) (snapshot.Manifest, error)
	saved func(ctx context.Context) ([]snapshot.Manifest, error)
	// compact makes an event the log's origin.
	compact func(ctx context.Context, seq uint64, archive string) (snapshot.OriginManifest, error)
	log     *slog.Logger
}

func (h *recoveryHandlers) routes() []Route {
	return []Route{
		{
			Method: http.MethodGet, Pattern: "/v1/facts", ID: "listFacts", Tag: "plane", Needs: access.ReadPlane,
			Summary: "List what the digest covers, to find in what two read models differ",
			Params:  []Param{queryText("node", "This node alone, with its rows one by one.")},
			Answers: []Answer{{
				Status: http.StatusOK, MediaType: mediaNDJSON, Body: resource.Fact{}, Headers: []string{HeaderLogSeq},
			}},
			Problems: []string{policy.CodeInvalidNodeID},
			serve:    h.facts,
		},
		{
			Method: http.MethodPost, Pattern: "/v1/snapshots", ID: "createSnapshot", Tag: "plane", Needs: access.AdminPlane,
			Summary:  "Make a checkpoint of this worker's read model, for new workers to start from",
			Answers:  jsonAnswer(http.StatusCreated, resource.Snapshot{}),
			Problems: []string{CodeSnapshotRunning, CodeLogUnavailable, CodeStorageLow},
			serve:    h.createSnapshot,
		},
		{
			Method: http.MethodGet, Pattern: "/v1/snapshots", ID: "listSnapshots", Tag: "plane", Needs: access.ReadPlane, early: true,
			Summary: "List the checkpoints of the log, newest first",
			Answers: jsonAnswer(http.StatusOK, resource.Items[resource.Snapshot]{}), Problems: []string{CodeLogUnavailable},
			serve: h.listSnapshots,
		},
		compactRoute(h.compactLog),
	}
}

func compactRoute(serve func(*call) error) Route {
	seq := querySeq("seq", "The first event that is kept.")
	seq.Required, seq.Schema.Minimum = true, openapi.N(1)
	return Route{
		Method: http.MethodPost, Pattern: "/v1/log:compact", ID: "compactLog", Tag: "plane", Needs: access.AdminPlane,
		Summary:  "Make an event the log's origin, and remove all before it, for good, once what was folded of that is stored, read back, compared with this worker's read model, and witnessed",
		Params:   []Param{seq, queryText("archive", "What the archive of the removed events is called: who asks for one of them is told.")},
		Answers:  jsonAnswer(http.StatusCreated, resource.LogOrigin{}),
		Problems: []string{policy.CodeMissing, CodeCompactionRunning, CodeNotCompactable, CodeLogUnavailable, CodeStorageLow},
		serve:    serve,
	}
}

func (h *recoveryHandlers) facts(c *call) error {
	var node policy.NodeID
	if text := c.r.URL.Query().Get("node"); text != "" {
		id, err := policy.ParseNodeID(text)
		if err != nil {
			return broken(http.StatusUnprocessableEntity, policy.CodeInvalidNodeID, "/node", "node is not a node id, a DNS label")
		}
		node = id
	}
	seq, facts := h.model.Facts(node)
	header := c.w.Header()
	header.Set(HeaderLogSeq, strconv.FormatUint(seq, 10))
	header.Set("Content-Type", mediaNDJSON)
	header.Set("Cache-Control", "no-store")
	deadline := http.NewResponseController(c.w)
	enc := json.NewEncoder(c.w)
	n := 0
	for f, err := range facts {
		if err != nil {
			return cutOff(c, err)
		}
		if n%factsAtOnce == 0 {
			if err := c.r.Context().Err(); err != nil {
				return cutOff(c, err)
			}
			_ = deadline.SetWriteDeadline(time.Now().Add(factsPatience)) // not every connection has one
		}
		n++
		if err := enc.Encode(resource.Fact{Kind: f.Kind, Key: f.Key, Values: f.Values}); err != nil {
			return nil //nolint:nilerr // the client is gone
		}
	}
	if n == 0 {
		c.w.WriteHeader(http.StatusOK)
	}
	_ = deadline.SetWriteDeadline(time.Time{}) // likewise
	return nil
}

// cutOff ends an answer that has begun so that its reader sees that it is not
// whole.
func cutOff(c *call, err error) error {
	if c.w.wrote() {
		panic(http.ErrAbortHandler)
	}
	return err
}

// logRequest logs who asked for work that leaves no event in the plane's log,
// because it changes no fact.
func (h *recoveryHandlers) logRequest(c *call) {
	h.log.Info("an operator asked for work", "route", c.route.Pattern, "principal", c.author(), "correlation_id", c.correlation)
}

var errNoSnapshots = errors.New("it keeps no checkpoints")

func (h *recoveryHandlers) createSnapshot(c *call) error {
	if h.save == nil {
		return snapshotsAway(errNoSnapshots)
	}
	if err := h.gate.check(); err != nil {
		return err
	}
	h.logRequest(c)
	m, err := h.save(c.r.Context())
	switch {
	case errors.Is(err, snapshot.ErrRunning):
		return problem(http.StatusConflict, CodeSnapshotRunning, "%v; wait for it, then list", err)
	case err != nil:
		return snapshotsAway(err)
	}
	return c.json(http.StatusCreated, showSnapshot(m))
}

func (h *recoveryHandlers) listSnapshots(c *call) error {
	if h.saved == nil {
		return snapshotsAway(errNoSnapshots)
	}
	all, err := h.saved(c.r.Context())
	if err != nil {
		return snapshotsAway(err)
	}
	out := resource.Items[resource.Snapshot]{Items: make([]resource.Snapshot, 0, len(all))}
	for _, m := range all {
		out.Items = append(out.Items, showSnapshot(m))
	}
	return c.json(http.StatusOK, out)
}

func snapshotsAway(err error) error {
	return problem(http.StatusServiceUnavailable, CodeLogUnavailable, "checkpoints cannot be reached here: %v", err)
}

func showSnapshot(m snapshot.Manifest) resource.Snapshot {
	return resource.Snapshot{
		Name: m.Name, Seq: m.Seq, Rows: m.Rows, Digest: m.Digest, Schema: m.Schema, Bytes: m.Bytes, Created: m.Time, Worker: m.Worker,
	}
}
