package api_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/internal/api"
	"github.com/edictdev/edict/internal/streams"
)

// marks are what is known of who appended an event.
type marks struct{ ours, proved bool }

func (m marks) Marked(*streams.Message) (ours, proved bool) { return m.ours, m.proved }

func TestTheAuditTakesWhatAnEventIsFromItsBody(t *testing.T) {
	const (
		id       = "0190a1b2-0000-7000-8000-00000000000c"
		removed  = `{"id":"` + id + `","type":"node_removed","project_id":"00000000-0000-4000-8000-000000000000","node_id":"db-7"}`
		relation = `{"id":"` + id + `","type":"relation_written","principal_id":"ana","relation":"plane#admin"}`
	)
	large := strings.Replace(removed, ",", ","+strings.Repeat(" ", 100<<10), 1)
	for name, c := range map[string]struct {
		body, says   string // the event's, and its header's
		marks        marks
		kind, detail string
	}{
		"of a worker":                                {removed, "node_removed", marks{ours: true, proved: true}, "node_removed", ""},
		"of a worker, with something to tell":        {relation, "relation_written", marks{ours: true, proved: true}, "relation_written", "plane#admin"},
		"of a producer who says nothing":             {removed, "", marks{}, "node_removed", ""},
		"of a producer who says something else":      {removed, "policy_deleted", marks{}, "node_removed", ""},
		"of a producer, and large":                   {large, "policy_deleted", marks{}, "node_removed", ""},
		"of a producer, with something to tell":      {relation, "", marks{}, "relation_written", "plane#admin"},
		"of before the marks, and nothing said":      {removed, "", marks{ours: true}, "node_removed", ""},
		"of before the marks, and said otherwise":    {removed, "node_updated", marks{ours: true}, "node_removed", ""},
		"of before the marks, with something told":   {relation, "", marks{ours: true}, "relation_written", "plane#admin"},
		"no event, of a producer who says it is one": {`{}`, "node_removed", marks{}, "node_removed", ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := streams.Message{Subject: "edict.log.x", Seq: 7, Body: []byte(c.body), Header: map[string][]string{"Edict-Mark": {"m"}}}
			if c.says != "" {
				m.Header["ce-type"] = []string{c.says}
			}
			got := api.TrailedOf(m, c.marks)
			require.Equal(t, c.kind, got.Get("ce-type"))
			require.Equal(t, c.detail, got.Detail)
			require.Equal(t, !c.marks.ours, got.Direct)
			require.LessOrEqual(t, len(got.Body), 64<<10)
			require.Empty(t, got.Get("Edict-Mark"), "nobody is shown how a worker marks events")
			if c.kind == "relation_written" || !c.marks.proved && c.body != `{}` {
				require.Equal(t, id, got.Get("ce-id"))
			}
		})
	}
}
