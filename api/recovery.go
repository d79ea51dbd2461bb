package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/policy"
)

// HeaderLogSeq is the log sequence that an answer stands for.
const HeaderLogSeq = "Edict-Log-Seq"

// factsPatience is how long a client of facts may read nothing: what it reads
// from is held for it meanwhile.
const factsPatience = 30 * time.Second

// factsAtOnce are so many that the patience begins anew.
const factsAtOnce = 1024

var errNoRelay = errors.New("it has no relay")

// recoveryRoutes are for operators who hold a plane against its log.
func recoveryRoutes() []Route {
	return []Route{
		{
			Method: http.MethodGet, Pattern: "/v1/facts", ID: "listFacts", Tag: "plane",
			Summary: "List what the digest covers, to find in what two read models differ",
			Params:  []Param{queryText("node", "This node alone, with its rows one by one.")},
			Answers: []Answer{{
				Status: http.StatusOK, MediaType: mediaNDJSON, Body: resource.Fact{}, Headers: []string{HeaderLogSeq},
			}},
			Problems: []string{policy.CodeInvalidNodeID},
			serve:    (*plane).listFacts,
		},
		{
			Method: http.MethodPost, Pattern: "/v1/partitions:republish", ID: "republish", Tag: "plane",
			Summary: "Have whoever announces each partition compare the node stream with its rows, and announce the differences",
			Answers: jsonAnswer(http.StatusAccepted, resource.Items[resource.SyncAsked]{}), Problems: []string{CodeStarting},
			serve: (*plane).republish,
		},
	}
}

func (p *plane) listFacts(c *call) error {
	var node policy.NodeID
	if text := c.r.URL.Query().Get("node"); text != "" {
		id, err := policy.ParseNodeID(text)
		if err != nil {
			return broken(http.StatusUnprocessableEntity, policy.CodeInvalidNodeID, "/node", "node is not a node id, a DNS label")
		}
		node = id
	}
	seq, facts := p.Model.Facts(node)
	h := c.w.Header()
	h.Set(HeaderLogSeq, strconv.FormatUint(seq, 10))
	h.Set("Content-Type", mediaNDJSON)
	h.Set("Cache-Control", "no-store")
	deadline := http.NewResponseController(c.w)
	enc := json.NewEncoder(c.w)
	n := 0
	for f, err := range facts {
		if err != nil {
			return cutOff(c, err)
		}
		if n%factsAtOnce == 0 {
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

func (p *plane) republish(c *call) error {
	if p.Republish == nil {
		return starting(errNoRelay)
	}
	asked, err := p.Republish(c.r.Context())
	if err != nil {
		return starting(err)
	}
	return c.json(http.StatusAccepted, resource.Items[resource.SyncAsked]{Items: asked})
}

// Republisher asks for a sync of every partition.
type Republisher func(ctx context.Context) ([]resource.SyncAsked, error)
