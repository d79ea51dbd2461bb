package attacks

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// Foreseen is the id that a write under an Idempotency-Key gives its event, or
// another thing that it makes: whoever guesses the key can work it out. It is written
// from the documents, and shares no code with the plane.
func Foreseen(principal, project, key, role string) uuid.UUID {
	in := uuid.Nil
	if project != "" {
		in = uuid.MustParse(project)
	}
	h := sha256.New()
	for _, field := range []string{principal, string(in[:]), key, role} {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(field)))) //nolint:gosec // short
		h.Write([]byte(field))
	}
	id := uuid.UUID(h.Sum(nil)[:16])
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80
	return id
}

// keyed is a write under a key that somebody guessed.
type keyed struct {
	what, who, project string // project: ""; of the plane's own
	role               string // of the event's id
	method, path, body string
	media              string
	shows              string // what is there afterwards
	gone               bool   // or is not
}

// keyedWrites are one of each kind that a key is good for. The policy is the one
// that two of them are about.
func keyedWrites(key string, pol uuid.UUID) []keyed {
	here := "/v1/projects/" + VictimProject
	made := Foreseen("alice", VictimProject, key, "create:policy")
	admitted := Foreseen("root", "", key, "create:admission policy")
	rules := `[{"action":"deny","protocol":"any","source_cidr":"10.0.0.0/8","destination_cidr":"10.0.0.0/8"}]`
	draft := `{"slug":"s-` + key + `","display_name":"x","selector":{"source":"a","destination":"b"},"rules":` + rules + `}`
	return []keyed{
		{"a new node", "alice", VictimProject, "put:" + key, "PUT", here + "/nodes/" + key, `{"labels":{"a":"1"}}`, "", here + "/nodes/" + key, false},
		{"a node's removal", "alice", VictimProject, "remove:" + key, "DELETE", here + "/nodes/" + key, "", "", here + "/nodes/" + key, true},
		{"nodes", "alice", VictimProject, "batch:1", "POST", here + "/nodes:batch", `{"id":"` + key + `","labels":{}}`, "application/x-ndjson", here + "/nodes/" + key, false},
		{"a policy", "alice", VictimProject, "create:event", "POST", here + "/policies", draft, "", here + "/policies/" + made.String(), false},
		{"a revision", "alice", VictimProject, "revise:" + pol.String() + ":event", "PATCH", here + "/policies/" + pol.String(), `{"display_name":"` + key + `"}`, "", here + "/policies/" + pol.String(), false},
		{"a policy's end", "alice", VictimProject, "delete:" + pol.String(), "DELETE", here + "/policies/" + pol.String(), "", "", here + "/policies/" + pol.String(), true},
		{"an admission policy", "root", "", "create:admission event", "POST", "/api/v1/policies", `{"name":"` + key + `","policy_type":"Global","priority":` + key[len(key)-1:] + `,"enabled":false,"rego_code":"package x\n"}`, "", "/api/v1/policies/" + admitted.String(), false},
		{"a principal", "root", "", "put:principal:" + key, "PUT", "/v1/access/principals/" + key, `{"kind":"person","display_name":"x"}`, "", "/v1/access/principals/" + key, false},
		{"a relation", "root", "", "write:relation:" + key + ":plane#read", "POST", "/v1/access/principals/" + key + "/relations", `{"relation":"plane#read"}`, "", "/v1/access/principals/" + key, false},
	}
}

// Collisions has mallory take the ids of writes that others make under a key she
// guessed, in her own project: as message ids, as ids of her events, and by using
// the key herself. What is answered with success is there, and is what was asked.
func (p *Plane) Collisions(t testing.TB) {
	t.Helper()
	nc, err := p.Connect(t, "mallory")
	require.NoError(t, err)
	for _, how := range []struct {
		key  string
		take func(w keyed, id uuid.UUID)
	}{
		{"taken-1", func(_ keyed, id uuid.UUID) { p.appendAs(t, nc, id, uuid.New()) }},
		{"taken-2", func(_ keyed, id uuid.UUID) { p.appendAs(t, nc, id, id) }},
		{"taken-3", func(w keyed, id uuid.UUID) {
			p.appendAs(t, nc, id, id)
			p.Ask(t, "mallory", "PUT", "/v1/projects/"+AttackerProject+"/nodes/m-"+uuid.NewString()[:8], []byte(`{}`), "Idempotency-Key", "taken-3")
			p.Ask(t, "mallory", w.method, w.path, []byte(w.body), "Idempotency-Key", "taken-3")
		}},
	} {
		status, text := p.Ask(t, "alice", "POST", "/v1/projects/"+VictimProject+"/policies",
			fmt.Appendf(nil, `{"slug":"before-%s","display_name":"x","selector":{"source":"a","destination":"b"},"rules":[{"action":"deny","protocol":"any","source_cidr":"10.0.0.0/8","destination_cidr":"10.0.0.0/8"}]}`, how.key))
		require.Equal(t, http.StatusCreated, status, "%s", text)
		var made struct{ ID uuid.UUID }
		require.NoError(t, json.Unmarshal(text, &made))
		for _, w := range keyedWrites(how.key, made.ID) {
			p.tried++
			how.take(w, Foreseen(w.who, w.project, how.key, w.role))
			headers := []string{"Idempotency-Key", how.key}
			if w.media != "" {
				headers = append(headers, "Content-Type", w.media)
			}
			status, text := p.Ask(t, w.who, w.method, w.path, []byte(w.body), headers...)
			if status >= 300 {
				t.Errorf("%s, whose id was taken (%s): %d %.300s", w.what, how.key, status, text)
				continue
			}
			status, text = p.Ask(t, w.who, "GET", w.shows, nil)
			if want := map[bool]int{false: http.StatusOK, true: http.StatusNotFound}[w.gone]; status != want {
				t.Errorf("%s, whose id was taken (%s), was acknowledged, and then: %d %.300s", w.what, how.key, status, text)
			}
		}
	}
}

// appendAs appends a harmless event of mallory's project under a message id.
func (p *Plane) appendAs(t testing.TB, nc *nats.Conn, msgID, event uuid.UUID) {
	t.Helper()
	m := nats.NewMsg("edict.log." + AttackerProject + ".node.harmless")
	m.Header.Set("Nats-Msg-Id", msgID.String())
	m.Data = fmt.Appendf(nil, `{"id":%q,"type":"node_updated","project_id":%q,"node_id":"harmless","labels":{},"addresses":[]}`, event, AttackerProject)
	_, err := nc.RequestMsg(m, 10*time.Second)
	require.NoError(t, err)
}
