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

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/policy"
)

// told is an event stream, read as it comes.
type told struct {
	t      *testing.T
	base   uint64 // of the plane's event ids
	frames chan frame
	last   string // id of the frame taken last
	end    func()
}

// frame is one event of a stream.
type frame struct{ what, id string } // "event" or "event reason"

func (p *Plane) hear(t *testing.T, node, after string) *told {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Addresses().HTTP+"/v1/nodes/"+node+"/events", nil)
	require.NoError(t, err)
	if after != "" {
		req.Header.Set("Last-Event-ID", after)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	s := &told{t: t, base: p.stream.Base(), frames: make(chan frame, 100), end: cancel}
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
				s.frames <- frame{strings.TrimSpace(event + " " + notice.Payload.Reason), id}
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return s
}

// next is the next event, and the log sequence that its id names.
func (s *told) next() (what string, seq uint64) {
	s.t.Helper()
	select {
	case f := <-s.frames:
		s.last = f.id
		id, err := policy.ParseEventID(f.id)
		require.NoError(s.t, err)
		seq, ours := id.Seq(s.base)
		require.True(s.t, ours)
		return f.what, seq
	case <-time.After(20 * time.Second):
		require.FailNow(s.t, "nothing came")
		return "", 0
	}
}

// hears waits for what the event at seq must be told as: under its own id or a
// later one. Words about the table that come before are no fault: where several
// events passed before tables were looked at, a node hears of its table although
// its rows told it.
func (s *told) hears(want string, seq uint64) {
	s.t.Helper()
	for {
		what, at := s.next()
		if what == tableChanged && (want != what || at < seq) {
			continue
		}
		require.Equal(s.t, want, what)
		require.GreaterOrEqual(s.t, at, seq)
		return
	}
}

const (
	rowChanged   = "policy_updated"
	tableChanged = "node_state_updated datapath"
)

// A node is told of what changes its table: by the row that changed, or by a word
// to pull where no row did. Nodes that have plain policies only hear no such word.
// That no word comes without need where each event is looked at by itself is for
// snapshot's tests to say.
func TestANodeHearsWhenItsTableAloneChanges(t *testing.T) {
	p := running(t, Options{Data: t.TempDir(), NATSListen: "none"})
	p.serves(t)
	c := newClient(t, p.Addresses())
	ctx := t.Context()
	put := func(id, role, address string) (seq uint64) {
		t.Helper()
		_, _, err := c.Nodes.Put(ctx, project, id, resource.Facts{Labels: map[string]string{"role": role}, Addresses: []string{address}})
		require.NoError(t, err)
		return p.store.Applied()
	}
	create := func(d resource.Draft) (id uuid.UUID, seq uint64) {
		t.Helper()
		made, err := c.Policies.Create(ctx, project, d)
		require.NoError(t, err)
		return made.ID, p.store.Applied()
	}
	patch := func(id uuid.UUID, body string) (seq uint64) {
		t.Helper()
		req, err := http.NewRequestWithContext(ctx, http.MethodPatch, fmt.Sprintf("http://%s/v1/projects/%s/policies/%s", p.Addresses().HTTP, project, id), strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		require.Equal(t, http.StatusOK, resp.StatusCode)
		return p.store.Applied()
	}
	put("db", "db", "10.1.0.1")
	put("web", "web", "10.2.0.1")
	put("lab", "lab", "10.3.0.1")
	db, web, lab := p.hear(t, "db", ""), p.hear(t, "web", ""), p.hear(t, "lab", "")
	plain, seq := create(resource.Draft{
		Slug: "plain", Selector: resource.Selector{Source: "role=lab", Destination: "role=lab"},
		Rules: []resource.Rule{{Action: "deny", Protocol: "any", SourceCIDR: "10.0.0.0/8", DestinationCIDR: "10.0.0.0/8"}},
	})
	lab.hears(rowChanged, seq)
	walls, seq := create(resource.Draft{
		Slug: "walls", Order: resource.Order{Tier: "admin"}, Selector: resource.Selector{Source: "role=web", Destination: "role=db"},
		Rules: []resource.Rule{{Action: "deny", Protocol: "any", SourceSelector: "role=web", DestinationSelector: "role=db"}},
	})
	db.hears(rowChanged, seq)
	web.hears(rowChanged, seq)

	db.hears(tableChanged, put("web", "web", "10.2.0.2")) // a peer of db, and no peer of its own
	put("lab", "lab", "10.3.0.2")                         // nobody's peer: a plain policy holds it, and a plain policy has no table to tell of
	web.hears(tableChanged, put("db", "db", "10.1.0.2"))
	seq = patch(walls, `{"priority":7}`) // the same rules elsewhere in the order
	db.hears(tableChanged, seq)
	web.hears(tableChanged, seq)
	seq = patch(walls, `{"rules":[{"action":"allow","protocol":"any","source_selector":"role=web","destination_selector":"role=db"}]}`)
	db.hears(rowChanged, seq)
	web.hears(rowChanged, seq)

	// Who was away hears of it, and who has heard it hears of what comes later alone.
	away := db.last
	db.end()
	seq = put("web", "web", "10.2.0.3")
	back := p.hear(t, "db", away)
	back.hears(tableChanged, seq)
	again := p.hear(t, "db", back.last)
	seq = put("web", "web", "10.2.0.4")
	back.hears(tableChanged, seq)
	what, at := again.next()
	require.Equal(t, tableChanged, what)
	require.Equal(t, seq, at)
	seq = put("db", "db", "10.1.0.3")
	web.hears(tableChanged, seq)
	caught := p.hear(t, "web", web.last)
	seq = patch(walls, `{"tier":"baseline"}`)
	caught.hears(tableChanged, seq)
	web.hears(tableChanged, seq)

	seq = patch(plain, `{"rules":[{"action":"allow","protocol":"any","source_cidr":"10.0.0.0/8","destination_cidr":"10.0.0.0/8"}]}`)
	what, at = lab.next()
	require.Equal(t, rowChanged, what, "of its row it hears next")
	require.Equal(t, seq, at)
}
