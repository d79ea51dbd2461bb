package projector

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/wire"
	"github.com/edictdev/edict/policy"
)

// hostileBodies are what a producer may append, and the id by which the chain
// names it: that of the first member "id" of an object, if it is a UUID, and
// nothing where the body cannot be read so far.
func hostileBodies() map[string]string {
	const id = "0190a000-0000-7000-8000-000000000001"
	said := `"id":"` + id + `"`
	bodies := map[string]string{
		"":                                     "",
		" ":                                    "",
		"null":                                 "",
		"[" + `{` + said + `}` + "]":           "",
		`"` + id + `"`:                         "",
		"{":                                    "",
		"{}":                                   "",
		"{" + said:                             id,
		"{" + said + "}":                       id,
		"\n\t{ " + said + " } ":                id,
		"{" + said + "} trailing":              id,
		"{" + said + "," + said + "}":          id,
		`{"id":7,` + said + "}":                "",
		`{"id":null}`:                          "",
		`{"id":{"id":"` + id + `"}}`:           "",
		`{"id":"` + strings.ToUpper(id) + `"}`: id,
		`{"id":"\u0030` + id[1:] + `"}`:        id,
		`{"\u0069d":"` + id + `"}`:             id,
		`{"ID":"` + id + `"}`:                  "",
		`{"id":"{` + id + `}"}`:                "",
		`{"id":"urn:uuid:` + id + `"}`:         "",
		`{"id":"` + strings.ReplaceAll(id, "-", "") + `"}`: "",
		`{"id":"00000000-0000-0000-0000-000000000000"}`:    "",
		`{"id":"no id"}`: "",
		`{"type":"node_updated","type":"x",` + said + "}":                                "",
		`{"n":1e999999,` + said + "}":                                                    id,
		`{"n":` + strings.Repeat("9", 5000) + "," + said + "}":                           id,
		`{"n":01,` + said + "}":                                                          "",
		`{"n":"` + "\xff\xfe" + `",` + said + "}":                                        "",
		"{" + said + `,"n":"` + "\xff\xfe" + `"}`:                                        id,
		`{"n":"\ud800",` + said + "}":                                                    "",
		`{"n":` + strings.Repeat("[", 20000) + "," + said + "}":                          "",
		`{"n":{"id":"x","id":"y"},` + said + "}":                                         "",
		"{" + said + `,"type":"of_tomorrow"}`:                                            id,
		"{" + said + `,"type":"node_updated","project_id":"` + tenant(1).String() + `"}`: id,
		"\xef\xbb\xbf{" + said + "}":                                                     "",
		"\x00":                                                                           "",
	}
	for _, e := range everyEvent() {
		bodies[string(policy.Append(nil, e))] = e.EventID().String()
	}
	return bodies
}

// everyEvent is one of each type; what they say need not be accepted.
func everyEvent() []policy.Event {
	return []policy.Event{
		policy.RevisionCreated{ID: evt(1), Project: tenant(1), Policy: tenant(2), Slug: "web", Revision: policy.Revision{ID: evt(2), CreatedAt: born}},
		policy.PolicyDeleted{ID: evt(3), Project: tenant(1), Policy: tenant(2)},
		policy.NodeUpdated{ID: evt(4), Project: tenant(1), Node: "m"},
		policy.NodeRemoved{ID: evt(5), Project: tenant(1), Node: "m"},
		policy.ArtifactReleased{ID: evt(6), Project: tenant(1), Node: "m"},
		policy.ArtifactWithdrawn{ID: evt(7), Project: tenant(1), Node: "m", Kind: "k", Name: "n"},
		policy.AdmissionPolicyUpdated{ID: evt(8), Policy: "a"},
		policy.AdmissionPolicyDeleted{ID: evt(9), Policy: "a"},
		policy.PrincipalUpdated{ID: evt(10), Principal: "ana", Document: policy.Principal{Kind: policy.Person}},
		policy.PrincipalRemoved{ID: evt(11), Principal: "ana"},
		policy.RelationWritten{ID: evt(12), Principal: "ana", Relation: related("plane#admin")},
		policy.RelationRemoved{ID: evt(13), Principal: "ana", Relation: related("plane#admin")},
		policy.NodeRegistered{ID: evt(14), Principal: "ana"},
		policy.KeyRotated{ID: evt(15), Key: "ed25519:0123456789abcdef", Previous: "ed25519:fedcba9876543210", Expires: born},
	}
}

var hostileSchemas = []string{"", "edict/v1", "edict/v6", "edict/v99", "edict/v18446744073709551616", "edict/vx", "urn:edict:schema:v1", "urn:edict:schema:v6", "urn:edict:schema:v99"}

// hostileSubjects are families that operators of projects append to, and what
// is no subject of ours.
var hostileSubjects = []string{
	"edict.log." + tenant(1).String() + ".node.m", "edict.log." + tenant(1).String() + ".policy." + tenant(2).String(),
	"edict.log." + tenant(1).String() + ".artifact.m",
}

func schema(s string) map[string][]string {
	if s == "" {
		return nil
	}
	return map[string][]string{wire.HeaderDataSchema: {s}}
}

// chainOf is the chain hash of docs/design.md#the-read-model, worked out once more.
func chainOf(before [32]byte, m streams.Message, id string) [32]byte {
	h := sha256.New()
	h.Write(before[:])
	h.Write(binary.BigEndian.AppendUint64(nil, m.Seq))
	h.Write([]byte(m.Subject + id))
	body := sha256.Sum256(m.Body)
	h.Write(body[:])
	return [32]byte(h.Sum(nil))
}

// hostileLog is every body under every header and subject, and the links that
// vouch for it: the chain hash with the ids that the table says.
func hostileLog() (msgs []streams.Message, links []streams.Link) {
	var j journal
	bodies := hostileBodies()
	var hash [32]byte
	for _, body := range slices.Sorted(maps.Keys(bodies)) {
		for _, subject := range hostileSubjects {
			for _, s := range hostileSchemas {
				m := j.raw(subject, []byte(body))
				m.Header = schema(s)
				j.msgs[len(j.msgs)-1] = m
				hash = chainOf(hash, m, bodies[body])
				links = append(links, streams.Link{Log: fmt.Sprint(born.UnixNano()), Seq: m.Seq, Hash: hash})
			}
		}
	}
	return j.msgs, links
}

// TestTheFoldAndWhoReadsTheLogNameEventsAlike: by the id in the body, whatever
// headers, subject and the rest of the body say.
func TestTheFoldAndWhoReadsTheLogNameEventsAlike(t *testing.T) {
	msgs, links := hostileLog()
	_, err := Audit(t.Context(), tape{msgs, 100}, Chain{}, uint64(len(msgs)), links, func(uint64) {})
	require.NoError(t, err)
	p := open(t, links)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx, tape{msgs, 100}) }()
	waited, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	if p.Wait(waited, uint64(len(msgs))) != nil {
		require.NoError(t, <-done)
	}
	cancel()
	require.NoError(t, <-done)
	require.Equal(t, links[len(links)-1], p.Head())
	require.NoError(t, p.Close())
}

// TestHeadersNeverMatterToTheChain: whatever bytes under whatever header, the
// fold's chain is that of who reads the log.
func TestHeadersNeverMatterToTheChain(t *testing.T) {
	bodies := slices.Sorted(maps.Keys(hostileBodies()))
	rapid.Check(t, func(t *rapid.T) {
		var j journal
		var read Chain
		for range rapid.IntRange(1, 12).Draw(t, "events") {
			body := []byte(rapid.SampledFrom(bodies).Draw(t, "body"))
			for range rapid.IntRange(0, 3).Draw(t, "harms") {
				if len(body) > 0 {
					body[rapid.IntRange(0, len(body)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
				}
			}
			m := j.raw(rapid.SampledFrom(hostileSubjects).Draw(t, "subject"), body)
			read.Add(m)
			m.Header = schema(rapid.SampledFrom(hostileSchemas).Draw(t, "schema"))
			j.msgs[len(j.msgs)-1] = m
		}
		fold := verifier{witness: &witness{}, next: 1}
		_, err := fold.take(j.msgs)
		require.NoError(t, err)
		require.Equal(t, read.Hash, fold.chain.Hash)
	})
}

// olderLinks are what releases before vouched for a log with: their folds, and
// their `edict log accept`.
func olderLinks(msgs []streams.Message) (folded, read []streams.Link) {
	var hash [2][32]byte
	for _, m := range msgs {
		id := ""
		if e, _ := policy.Decode(m.Body); e != nil {
			id = e.EventID().String()
		}
		hash[1] = chainOf(hash[1], m, id)
		if v := m.Get(wire.HeaderDataSchema); strings.HasPrefix(v, "edict/v") && v != "edict/v1" && v != "edict/vx" {
			id = ""
		}
		hash[0] = chainOf(hash[0], m, id)
		l := streams.Link{Log: fmt.Sprint(born.UnixNano()), Seq: m.Seq, Hash: hash[0]}
		folded = append(folded, l)
		l.Hash = hash[1]
		read = append(read, l)
	}
	return folded, read
}

// TestAWitnessOfAnOlderReleaseIsBelieved: one that its folds wrote, and one that
// its `edict log accept` wrote, by who reads the log and by a fold, which may
// have been stopped on the way; and what is witnessed then is what counts now.
func TestAWitnessOfAnOlderReleaseIsBelieved(t *testing.T) {
	gen.Unraced()
	msgs, links := hostileLog()
	folded, read := olderLinks(msgs)
	require.NotEqual(t, folded[len(msgs)-1].Hash, read[len(msgs)-1].Hash)
	for _, older := range [][]streams.Link{folded, read} {
		require.NotEqual(t, older[len(msgs)-1].Hash, links[len(msgs)-1].Hash)
		_, err := Audit(t.Context(), tape{msgs, 100}, Chain{}, uint64(len(msgs)), older, func(uint64) {})
		require.NoError(t, err)

		fs := vfs.NewMem()
		half := len(msgs) / 2
		for _, upTo := range []int{half, len(msgs)} {
			p, err := Open("store", Options{Partitions: testPartitions, Created: born, Links: older, fs: fs})
			require.NoError(t, err)
			require.NoError(t, p.Apply(msgs[:upTo]))
			require.Equal(t, links[upTo-1], p.Head())
			require.NoError(t, p.Verify(t.Context(), tape{msgs: msgs}))
			seq, _ := p.Differ(older[:upTo])
			require.Zero(t, seq, "a worker of an older release folded the same")
			require.NoError(t, p.Close())
		}

		changed := slices.Clone(msgs)
		changed[half].Subject += "x"
		_, err = Audit(t.Context(), tape{changed, 100}, Chain{}, uint64(len(msgs)), older, func(uint64) {})
		var d *streams.DamagedError
		require.ErrorAs(t, err, &d)
		require.EqualValues(t, half+1, d.From)
	}
}
