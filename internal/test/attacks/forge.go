package attacks

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
)

// forged are headers that a producer may put on an event, by name: those by which
// the plane knows who and what, those of the tools around it, and those by which a
// NATS server takes orders.
func forged(victim uuid.UUID) map[string][]string {
	return map[string][]string{
		"Edict-Principal":      {"root", "alice", "", strings.Repeat("x", 4000), "a\tb", "\x1b[2J"},
		"Edict-Correlation-Id": {"change-1", "\u202e", strings.Repeat("y", 4000)},
		"Edict-Mark":           {"", "AAAAAAAAAAAAAAAA", strings.Repeat("A", 4000)},
		"Edict-Request":        {strings.Repeat("0", 64), "x"},
		"Edict-Log":            {"1", "x"},
		"Edict-Id":             {VictimNode + ".1", "1"},
		"Edict-Event-Id":       {"18446744073709551615"},
		"Edict-Log-Seq":        {"0", "18446744073709551615"},
		"Edict-Up-To":          {"1"},
		"traceparent":          {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-" + strings.Repeat("0", 32) + "-" + strings.Repeat("0", 16) + "-00", "ff-x", strings.Repeat("z", 4000)},
		"tracestate":           {strings.Repeat("a=b,", 500)},
		"ce-id":                {victim.String(), "x"},
		"ce-type":              {"key_rotated", "principal_updated", "relation_written", "x"},
		"ce-source":            {"edict", "edict/" + VictimProject},
		"ce-specversion":       {"9.9"},
		"ce-time":              {"0001-01-01T00:00:00Z", "tomorrow"},
		"ce-dataschema":        {"edict/v1", "edict/v5", "edict/v6", "edict/v7", "edict/v8", "edict/v9", "edict/v10", "edict/v12", "edict/v13", "edict/v99", "edict/v18446744073709551616", "edict/v", "other/v9", "urn:edict:schema:v1", "urn:edict:schema:v7", "urn:edict:schema:v99", "urn:edict:schema:v18446744073709551616", "urn:edict:schema:v"},
		"Nats-Msg-Id":          {victim.String(), "", strings.Repeat("m", 4000)},

		"Nats-Rollup":                                 {"sub", "all"},
		"Nats-TTL":                                    {"1s", "never", "-1"},
		"Nats-Expected-Stream":                        {"EDICT_META", "EDICT_LOG"},
		"Nats-Expected-Last-Sequence":                 {"0", "1"},
		"Nats-Expected-Last-Msg-Id":                   {"x"},
		"Nats-Expected-Last-Subject-Sequence":         {"0", "999999"},
		"Nats-Expected-Last-Subject-Sequence-Subject": {"edict.log.access.alice"},
		"Nats-Batch-Id":                               {"b"},
		"Nats-Batch-Sequence":                         {"1"},
		"Nats-Batch-Commit":                           {"1"},
		"Nats-Incr":                                   {"+1"},
		"Nats-Schedule":                               {"@every 1s"},
		"Nats-Schedule-Target":                        {"edict.log.access.root"},
		"Nats-Marker-Reason":                          {"MaxAge"},
		"Nats-Stream-Source":                          {"EDICT_LOG 1 > > edict.log.access.root"},
		"Nats-Request-Info":                           {`{"acc":"$G","user":"root"}`},
		"Nats-Sequence":                               {"1"},
		"Nats-Subject":                                {"edict.log.access.root"},
		"Status":                                      {"503"},
	}
}

// forgePatience bounds a request that nobody may answer: a server that is given two
// orders at once says nothing.
const forgePatience = 100 * time.Millisecond

// ForgedHeaders has mallory append an event of her own with each of them. Where it is
// stored it is hers, whatever its headers say.
func (p *Plane) ForgedHeaders(t testing.TB, victim uuid.UUID) {
	t.Helper()
	nc, err := p.Connect(t, "mallory")
	require.NoError(t, err)
	all := forged(victim)
	for name, values := range all {
		for _, value := range values {
			p.tried++
			p.forge(t, nc, map[string]string{name: value})
		}
	}
}

// forge appends an event of mallory's with headers, and says where it stands; 0:
// nowhere.
func (p *Plane) forge(t testing.TB, nc *nats.Conn, headers map[string]string) uint64 {
	t.Helper()
	id := uuid.New()
	m := nats.NewMsg("edict.log." + AttackerProject + ".node.forged")
	m.Data = fmt.Appendf(nil, `{"id":%q,"type":"node_updated","project_id":%q,"node_id":"forged","labels":{"n":"a%s"},"addresses":[]}`, id, AttackerProject, id)
	for name, value := range headers {
		m.Header.Set(name, value)
	}
	answer, err := nc.RequestMsg(m, forgePatience)
	if err != nil {
		return 0
	}
	var ack struct {
		Seq       uint64
		Duplicate bool
	}
	if json.Unmarshal(answer.Data, &ack) != nil || ack.Duplicate {
		return 0
	}
	return ack.Seq
}

// Recorded is a message that somebody heard, with its headers.
type Recorded struct {
	Subject string
	Header  map[string][]string
	Body    []byte
}

// Replays sends what others wrote and heard once more: on its own subject, where it
// is refused, and on those that mallory and the attacker may publish on, with all
// its headers. What that appends is for the fold to reject.
func (p *Plane) Replays(t testing.TB, recorded []Recorded) (sent []Sent) {
	t.Helper()
	nodes, err := p.Connect(t, "attacker")
	require.NoError(t, err)
	producers, err := p.Connect(t, "mallory")
	require.NoError(t, err)
	for _, r := range recorded {
		for who, nc := range map[string]*nats.Conn{"attacker": nodes, "mallory": producers} {
			p.tried++
			require.NoError(t, nc.PublishMsg(&nats.Msg{Subject: r.Subject, Header: r.Header, Data: r.Body}))
			if !denied(t, nc, r.Subject) {
				p.allowed(t, who, "send what was recorded on %s", r.Subject)
			}
		}
		for _, subject := range []string{"edict.report.node." + AttackerNode, "edict.replay.node." + AttackerNode} {
			p.tried++
			require.NoError(t, nodes.PublishMsg(&nats.Msg{Subject: subject, Header: r.Header, Data: r.Body}))
		}
		for _, of := range []string{"node." + AttackerNode, "policy." + p.Policy, "artifact." + AttackerNode} {
			subject := "edict.log." + AttackerProject + "." + of
			// Under its own message id it is dropped as a duplicate.
			for _, header := range []nats.Header{r.Header, mapsWithout(r.Header, "Nats-Msg-Id")} {
				p.tried++
				answer, err := producers.RequestMsg(&nats.Msg{Subject: subject, Header: header, Data: r.Body}, 10*time.Second)
				require.NoError(t, err)
				var ack struct {
					Seq       uint64
					Duplicate bool
				}
				require.NoError(t, json.Unmarshal(answer.Data, &ack), "%s", answer.Data)
				if ack.Seq > 0 && !ack.Duplicate {
					sent = append(sent, Sent{What: r.Subject + " on " + subject, Seq: ack.Seq, Code: "*"})
				}
			}
		}
	}
	require.NoError(t, nodes.Flush())
	return sent
}

func mapsWithout(headers map[string][]string, name string) nats.Header {
	out := nats.Header{}
	for k, v := range headers {
		if k != name {
			out[k] = slices.Clone(v)
		}
	}
	return out
}

// ReplayRequests are what an agent may ask for its own node, however oddly: it is
// answered or not, and never with anything of another's.
func (p *Plane) ReplayRequests(t testing.TB) {
	t.Helper()
	nc, err := p.Connect(t, "attacker")
	require.NoError(t, err)
	inbox := "_INBOX.attacker.replay"
	sub, err := nc.SubscribeSync(inbox)
	require.NoError(t, err)
	for _, body := range []string{
		``, `{}`, `{"after":"0"}`, `{"after":0}`, `{"after":-1}`, `{"after":"18446744073709551616"}`, `{"after":"0","node":"` + VictimNode + `"}`,
		`{"after":"0","node_id":"` + VictimNode + `"}`, `{"after":"0","after":"1"}`, `[]`, `null`, "\x00", strings.Repeat(`{"after":`, 10_000),
		`{"after":"0","tables":"yes"}`, `{"after":"0","tables":true}`, `{"after":"../` + VictimNode + `"}`,
	} {
		p.tried++
		require.NoError(t, nc.PublishMsg(&nats.Msg{Subject: "edict.replay.node." + AttackerNode, Reply: inbox, Data: []byte(body)}))
		// The next once it is answered: a few of one node are answered at once.
		for ended := false; !ended; {
			m, err := sub.NextMsg(10 * time.Second)
			require.NoError(t, err, "%.100q has no answer", body)
			ended = m.Header.Get("Edict-Up-To") != "" || m.Header.Get("Edict-Error") != ""
			for _, other := range []string{`"` + VictimNode + `"`, p.Policy, VictimProject} {
				if strings.Contains(string(m.Data), other) || strings.Contains(fmt.Sprint(m.Header), other) {
					t.Errorf("the attacker asked for its replay, and heard %s: %.300s", other, m.Data)
				}
			}
		}
	}
}
