package plane

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/policy"
)

// told is an event stream, read as it comes.
type told struct {
	t      *testing.T
	frames chan string // "event" or "event reason"
	last   string      // id of the frame taken last
	ids    chan string
	end    func()
}

func hear(t *testing.T, at Addresses, node, after string) *told {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at.HTTP+"/v1/nodes/"+node+"/events", nil)
	require.NoError(t, err)
	if after != "" {
		req.Header.Set("Last-Event-ID", after)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	s := &told{t: t, frames: make(chan string, 100), ids: make(chan string, 100), end: cancel}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		var id, event string
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "id":
				id = value
			case "event":
				event = value
			case "data":
				var notice struct {
					Payload struct {
						Reason string `json:"reason"`
					} `json:"payload"`
				}
				_ = json.Unmarshal([]byte(value), &notice)
				s.ids <- id
				s.frames <- strings.TrimSpace(event + " " + notice.Payload.Reason)
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return s
}

func (s *told) hears(want ...string) {
	s.t.Helper()
	for _, w := range want {
		select {
		case got := <-s.frames:
			require.Equal(s.t, w, got)
			s.last = <-s.ids
		case <-time.After(20 * time.Second):
			require.FailNow(s.t, "nothing came", "want %s", w)
		}
	}
}

func (s *told) heardNothing() {
	s.t.Helper()
	select {
	case got := <-s.frames:
		require.FailNow(s.t, "heard "+got+" at "+<-s.ids+" after "+s.last)
	default:
	}
}

const (
	rowChanged   = "policy_updated"
	tableChanged = "node_state_updated datapath"
)

// A node is told once of what changes its table: by the row that changed, or by
// a word to pull where no row did. Nodes whose table is the same hear nothing,
// and nor do nodes that have plain policies only.
func TestANodeHearsWhenItsTableAloneChanges(t *testing.T) {
	at, _ := start(t, Options{Data: t.TempDir(), Relaxed: true})
	c := newClient(t, at)
	ctx := t.Context()
	put := func(id, role, address string) {
		t.Helper()
		_, _, err := c.PutNode(ctx, project, id, resource.Facts{Labels: map[string]string{"role": role}, Addresses: []string{address}})
		require.NoError(t, err)
	}
	put("db", "db", "10.1.0.1")
	put("web", "web", "10.2.0.1")
	put("lab", "lab", "10.3.0.1")
	db, web, lab := hear(t, at, "db", ""), hear(t, at, "web", ""), hear(t, at, "lab", "")
	_, err := c.CreatePolicy(ctx, project, resource.Draft{
		Slug: "plain", Selector: resource.Selector{Source: "role=lab", Destination: "role=lab"},
		Rules: []resource.Rule{{Action: "deny", Protocol: "any", SourceCIDR: "10.0.0.0/8", DestinationCIDR: "10.0.0.0/8"}},
	})
	require.NoError(t, err)
	lab.hears(rowChanged)
	walls, err := c.CreatePolicy(ctx, project, resource.Draft{
		Slug: "walls", Order: resource.Order{Tier: "admin"}, Selector: resource.Selector{Source: "role=web", Destination: "role=db"},
		Rules: []resource.Rule{{Action: "deny", Protocol: "any", SourceSelector: "role=web", DestinationSelector: "role=db"}},
	})
	require.NoError(t, err)
	db.hears(rowChanged)
	web.hears(rowChanged)

	put("web", "web", "10.2.0.2") // a peer of db, and no peer of its own
	db.hears(tableChanged)
	put("lab", "lab", "10.3.0.2") // nobody's peer: a plain policy holds it, and a plain policy has no table to tell of
	put("db", "db", "10.1.0.2")
	web.hears(tableChanged)
	patch := func(body string) {
		t.Helper()
		req, err := http.NewRequestWithContext(ctx, http.MethodPatch, fmt.Sprintf("http://%s/v1/projects/%s/policies/%s", at.HTTP, project, walls.ID), strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		require.Equal(t, http.StatusOK, resp.StatusCode)
	}
	patch(`{"priority":7}`) // the same rules elsewhere in the order
	db.hears(tableChanged)
	web.hears(tableChanged)
	patch(`{"rules":[{"action":"allow","protocol":"any","source_selector":"role=web","destination_selector":"role=db"}]}`)
	db.hears(rowChanged)
	web.hears(rowChanged)

	// Who was away gets one word, and whoever has heard it gets none.
	away := db.last
	db.end()
	put("web", "web", "10.2.0.3")
	awaitWord(t, at, away)
	again := hear(t, at, "db", away)
	again.hears(tableChanged)
	require.Greater(t, idOf(t, again.last), idOf(t, away))
	word := idOf(t, again.last)
	put("web", "web", "10.2.0.4")
	again.hears(tableChanged)
	require.Greater(t, idOf(t, again.last), word)
	again.heardNothing()
	put("db", "db", "10.1.0.3")
	web.hears(tableChanged)
	web.heardNothing()
	lab.heardNothing()
	caught := hear(t, at, "web", web.last)
	patch(`{"tier":"baseline"}`)
	caught.hears(tableChanged)
	web.hears(tableChanged)
	for web.last != caught.last { // one may have heard a word too many before
		behind := web
		if idOf(t, caught.last) < idOf(t, web.last) {
			behind = caught
		}
		behind.hears(tableChanged)
	}
}

func idOf(t *testing.T, text string) policy.EventID {
	t.Helper()
	id, err := policy.ParseEventID(text)
	require.NoError(t, err)
	return id
}

// awaitWord waits until a resume of db after n is owed a word.
func awaitWord(t *testing.T, at Addresses, n string) {
	t.Helper()
	other := hear(t, at, "db", n)
	other.hears(tableChanged)
	other.end()
}
