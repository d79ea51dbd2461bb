package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const revisionBody = `{"id":"0193b5a0-0000-7000-8000-000000000001","type":"policy_revision_created","project_id":"00000000-0000-4000-8000-000000000000",` +
	`"policy_id":"0193b5a0-0000-7000-8000-000000000002","slug":"web","display_name":"Web","revision":{"id":"0193b5a0-0000-7000-8000-000000000003","parent_id":null,` +
	`"selector":{"source":"role=web","destination":"role in (cache,db),!old"},"rules":[{"action":"allow","protocol":"tcp","source_cidr":"10.0.0.0/8",` +
	`"destination_cidr":"10.1.0.0/16","ports":{"from":5432,"to":5432}},{"action":"deny","protocol":"any","source_cidr":"fd00::/8","destination_cidr":"::/0"}],` +
	`"created_at":"2026-11-20T12:00:00Z","created_by":"ann","correlation_id":null}}`

const nodeBody = `{"id":"0193b5a0-0000-7000-8000-000000000004","type":"node_updated","project_id":"00000000-0000-4000-8000-000000000000",` +
	`"node_id":"node-17","labels":{"acme:checkout/owner":"sre","env":"prod","role":"web","zone":"eu-1"},"addresses":["10.0.0.7","fd00::7"]}`

const deletedBody = `{"id":"0193b5a0-0000-7000-8000-000000000005","type":"policy_deleted","project_id":"00000000-0000-4000-8000-000000000000",` +
	`"policy_id":"0193b5a0-0000-7000-8000-000000000002"}`

const removedBody = `{"id":"0193b5a0-0000-7000-8000-000000000006","type":"node_removed","project_id":"00000000-0000-4000-8000-000000000000","node_id":"node-17"}`

const keyBody = `{"id":"0193b5a0-0000-7000-8000-000000000007","type":"signing_key_rotated","key_id":"ed25519:0123456789abcdef",` +
	`"previous_key_id":"ed25519:fedcba9876543210","transition_expires":"2026-11-20T12:00:00Z","created_by":"ann"}`

func TestAppendWritesTheContractsBytes(t *testing.T) {
	for _, body := range []string{revisionBody, nodeBody, deletedBody, removedBody, keyBody} {
		e, err := Decode([]byte(body))
		require.NoError(t, err)
		require.Equal(t, body, string(Append(nil, e)))
	}
}

func TestDecodeReadsBackWhatAppendWrote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := anyEvent(t)
		body := Append(nil, e)
		got, err := Decode(body)
		require.NoError(t, err, "%s", body)
		require.Equal(t, e, got)

		// Neither white space nor the order of members matters, and nothing read
		// points into the body or into what the next reading uses.
		var members any
		require.NoError(t, json.Unmarshal(body, &members))
		body, err = json.MarshalIndent(members, "", "  ") // members by name
		require.NoError(t, err)
		got, err = Decode(body)
		require.NoError(t, err)
		clear(body)
		for range 4 { // whatever reader the pool hands out next
			_, _ = Decode([]byte(nodeBody))
		}
		require.Equal(t, e, got)
	})
}

func TestDecodeAcceptsTheEdges(t *testing.T) {
	cases := []struct{ name, body, old, new string }{
		{"ids in upper case", revisionBody, "0193b5a0-0000-7000-8000-000000000001", "0193B5A0-0000-7000-8000-000000000001"},
		{"no parent_id and no correlation_id", revisionBody, `"parent_id":null,`, ``},
		{"no display name", revisionBody, `"display_name":"Web",`, ``},
		{"an empty display name", revisionBody, `"Web"`, `""`},
		{"a display name of 128 characters, more bytes", revisionBody, `"Web"`, `"` + strings.Repeat("é", 128) + `"`},
		{"a slug of 64", revisionBody, `"slug":"web"`, `"slug":"` + strings.Repeat("w", 64) + `"`},
		{"a time with an offset", revisionBody, "12:00:00Z", "14:00:00.5+02:00"},
		{"names and values with escapes", nodeBody, `"env":"prod"`, `"\u0065nv":"pro\u0064"`},
		{"no labels in an object", nodeBody, `{"acme:checkout/owner":"sre","env":"prod","role":"web","zone":"eu-1"}`, `{}`},
		{"no addresses in an array", nodeBody, `["10.0.0.7","fd00::7"]`, `[]`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			body := edit(t, c.body, c.old, c.new)
			e, err := Decode([]byte(body))
			require.NoError(t, err)
			again, err := Decode(Append(nil, e))
			require.NoError(t, err)
			require.Equal(t, e, again)
		})
	}
}

func edit(t *testing.T, body, old, new string) string {
	require.Contains(t, body, old)
	return strings.Replace(body, old, new, 1)
}

// A fault is written "pointer code".
func faultsOf(v Violations) []string {
	var list []string
	for _, x := range v {
		list = append(list, x.Pointer+" "+x.Code)
	}
	return list
}

func TestDecodeNamesEveryFault(t *testing.T) {
	manyRules := strings.TrimSuffix(strings.Repeat(`{"action":"deny","protocol":"any","source_cidr":"::/0","destination_cidr":"::/0"},`, 1025), ",")
	withRules := func(rules string) string {
		from, to := strings.Index(revisionBody, `"rules":[`), strings.Index(revisionBody, `,"created_at"`)
		return revisionBody[:from] + `"rules":[` + rules + `]` + revisionBody[to:]
	}
	cases := []struct {
		name, body, old, new string // old in body becomes new
		code                 string
		faults               []string
	}{
		{"nothing", "", "", "", Undecodable, []string{" malformed_json"}},
		{"not an object", "[1]", "", "", Undecodable, []string{" wrong_type"}},
		{"half an object", nodeBody[:40], "", "", Undecodable, []string{"/id malformed_json"}},
		{"a second document", nodeBody + "{}", "", "", Undecodable, []string{" malformed_json"}},
		{"a comma too many", nodeBody, `"addresses":["10.0.0.7",`, `"addresses":["10.0.0.7",,`, Undecodable, []string{"/addresses/1 malformed_json"}},
		{"text that is not UTF-8", nodeBody, "sre", "s\xff", Undecodable, []string{"/labels/acme:checkout~1owner malformed_json"}},
		{"half a surrogate pair", nodeBody, "sre", `\ud800`, Undecodable, []string{"/labels/acme:checkout~1owner malformed_json"}},
		{"a name twice", nodeBody, `"node_id"`, `"type":"node_removed","node_id"`, Undecodable, []string{"/type duplicate_key"}},
		{"a label twice, once in escapes", nodeBody, `"env":"prod"`, `"env":"prod","\u0065nv":"x"`, Undecodable, []string{"/labels/env duplicate_key"}},
		{"a name twice in what is skipped", nodeBody, `"node_id"`, `"x":{"a":1,"a":2},"node_id"`, Undecodable, []string{"/x/a duplicate_key"}},
		{"an unknown field", nodeBody, `"node_id"`, `"zone~/":{"deep":[1]},"node_id"`, Undecodable, []string{"/zone~0~1 unknown_field"}},
		{"a field of another event", nodeBody, `"node_id"`, `"slug":"web","node_id"`, Undecodable, []string{"/slug unknown_field"}},
		{"a field in another case", nodeBody, `"node_id"`, `"Node_id"`, Undecodable, []string{"/Node_id unknown_field", "/node_id required"}},
		{
			"wrong types, all of them", nodeBody, `"labels":{"acme:checkout/owner":"sre","env":"prod","role":"web","zone":"eu-1"},"addresses":["10.0.0.7",`,
			`"labels":{"a":1,"b":null},"addresses":[{},`, Undecodable,
			[]string{"/labels/a wrong_type", "/labels/b wrong_type", "/addresses/0 wrong_type"},
		},
		{"a null object", nodeBody, `["10.0.0.7","fd00::7"]`, `null`, Undecodable, []string{"/addresses wrong_type"}},
		{"a fraction of a port", revisionBody, `"from":5432`, `"from":5432.0`, Undecodable, []string{"/revision/rules/0/ports/from wrong_type"}},
		{"a port in quotes", revisionBody, `"from":5432`, `"from":"5432"`, Undecodable, []string{"/revision/rules/0/ports/from wrong_type"}},
		{"shape and rules at once", nodeBody, `"role":"web"`, `"ro le":"web","x":true`, Undecodable, []string{"/labels/ro le invalid_label_key", "/labels/x wrong_type"}},

		{"an unknown type", nodeBody, `"node_updated"`, `"node_renamed"`, UnknownType, []string{"/type unknown_type"}},
		{"an unknown type, and whatever it holds", nodeBody, `"type":"node_updated"`, `"type":"node_renamed","new_id":1,"slug":7`, UnknownType, []string{"/type unknown_type"}},
		{"an unknown type in a broken body", edit(t, nodeBody, `"node_updated"`, `"node_renamed"`) + "x", "", "", Undecodable, []string{"/type unknown_type", " malformed_json"}},

		{"no type", nodeBody, `"type":"node_updated",`, ``, Invalid, []string{"/type required"}},
		{"nothing at all in it", "{}", "", "", Invalid, []string{"/id required", "/type required", "/project_id required"}},
		{"every required field of a node", `{"type":"node_updated"}`, "", "", Invalid, []string{"/id required", "/project_id required", "/node_id required", "/labels required", "/addresses required"}},
		{"every required field of a revision", revisionBody, `"revision":{`, `"revision":{},"x":{`, Undecodable, []string{
			"/revision/id required", "/revision/selector required",
			"/revision/rules required", "/revision/created_at required", "/revision/created_by required", "/x unknown_field",
		}},
		{"the nil UUID", nodeBody, "0193b5a0-0000-7000-8000-000000000004", "00000000-0000-0000-0000-000000000000", Invalid, []string{"/id invalid_uuid"}},
		{"a UUID in braces", nodeBody, "0193b5a0-0000-7000-8000-000000000004", "{0193b5a0-0000-7000-8000-000000000004}", Invalid, []string{"/id invalid_uuid"}},
		{"a UUID without dashes", nodeBody, "0193b5a0-0000-7000-8000-000000000004", "0193b5a0000070008000000000000004", Invalid, []string{"/id invalid_uuid"}},
		{"a node id in upper case", nodeBody, "node-17", "Node-17", Invalid, []string{"/node_id invalid_node_id"}},
		{"a slug that begins with a digit", revisionBody, `"slug":"web"`, `"slug":"1web"`, Invalid, []string{"/slug invalid_slug"}},
		{"a slug of 65", revisionBody, `"slug":"web"`, `"slug":"` + strings.Repeat("w", 65) + `"`, Invalid, []string{"/slug invalid_slug"}},
		{"a display name of 129 characters", revisionBody, `"Web"`, `"` + strings.Repeat("é", 129) + `"`, Invalid, []string{"/display_name invalid_display_name"}},
		{"a line break in a display name", revisionBody, `"Web"`, `"We\nb"`, Invalid, []string{"/display_name invalid_display_name"}},
		{"a date for a time", revisionBody, "2026-11-20T12:00:00Z", "2026-11-20", Invalid, []string{"/revision/created_at invalid_time"}},
		{"a long author", revisionBody, `"ann"`, `"` + strings.Repeat("a", 257) + `"`, Invalid, []string{"/revision/created_by text_too_long"}},
		{"no rules", withRules(``), "", "", Invalid, []string{"/revision/rules rules_out_of_range"}},
		{"1,025 rules", withRules(manyRules), "", "", Invalid, []string{"/revision/rules rules_out_of_range"}},
		{"a blank selector", revisionBody, `"role=web"`, `" "`, Invalid, []string{"/revision/selector/source selector_syntax_error"}},
		{"two faults of a selector", revisionBody, `"role=web"`, `"role==web,,x"`, Invalid, []string{"/revision/selector/source selector_syntax_error", "/revision/selector/source selector_syntax_error"}},
		{"half a selector", revisionBody, `"source":"role=web",`, ``, Invalid, []string{"/revision/selector/source required"}},

		{"an unknown action", withRules(`{"action":"drop","protocol":"any","source_cidr":"fd00::/8","destination_cidr":"::/0"}`), "", "", Invalid, []string{"/revision/rules/0/action unknown_action"}},
		{"an unknown protocol says nothing about ports", withRules(`{"action":"deny","protocol":"TCP","source_cidr":"fd00::/8","destination_cidr":"::/0"}`), "", "", Invalid, []string{"/revision/rules/0/protocol unknown_protocol"}},
		{"host bits", withRules(`{"action":"deny","protocol":"any","source_cidr":"fd00::1/8","destination_cidr":"::/0"}`), "", "", Invalid, []string{"/revision/rules/0/source_cidr cidr_not_masked"}},
		{"two families", withRules(`{"action":"deny","protocol":"any","source_cidr":"fd00::/8","destination_cidr":"0.0.0.0/0"}`), "", "", Invalid, []string{"/revision/rules/0/destination_cidr cidr_family_mismatch"}},
		{"tcp without ports", withRules(`{"action":"deny","protocol":"tcp","source_cidr":"fd00::/8","destination_cidr":"::/0"}`), "", "", Invalid, []string{"/revision/rules/0/ports ports_required"}},
		{"icmp with ports", withRules(`{"action":"deny","protocol":"icmp","source_cidr":"fd00::/8","destination_cidr":"::/0","ports":{"from":1,"to":1}}`), "", "", Invalid, []string{"/revision/rules/0/ports ports_forbidden"}},
		{"ports out of range", revisionBody, `"from":5432,"to":5432`, `"from":0,"to":65536`, Invalid, []string{"/revision/rules/0/ports/from port_out_of_range", "/revision/rules/0/ports/to port_out_of_range"}},
		{"a port below zero and one beyond all integers", revisionBody, `"from":5432,"to":5432`, `"from":-1,"to":99999999999999999999`, Invalid, []string{"/revision/rules/0/ports/from port_out_of_range", "/revision/rules/0/ports/to port_out_of_range"}},
		{"ports the wrong way round", revisionBody, `"from":5432`, `"from":5433`, Invalid, []string{"/revision/rules/0/ports port_range_inverted"}},
		{"half a port range", revisionBody, `"from":5432,`, ``, Invalid, []string{"/revision/rules/0/ports/from required"}},
		{"an empty rule", withRules(`{}`), "", "", Invalid, []string{"/revision/rules/0/action required", "/revision/rules/0/protocol required", "/revision/rules/0/source_cidr required", "/revision/rules/0/destination_cidr required"}},
		{
			"faults in several rules", revisionBody, `"action":"allow","protocol":"tcp","source_cidr":"10.0.0.0/8"`, `"action":"x","protocol":"tcp","source_cidr":"10.0.0.1/8"`, Invalid,
			[]string{"/revision/rules/0/action unknown_action", "/revision/rules/0/source_cidr cidr_not_masked"},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := Decode([]byte(edit(t, c.body, c.old, c.new)))
			var decode *DecodeError
			require.ErrorAs(t, err, &decode)
			require.Equal(t, c.code, decode.Code, "%v", decode.Violations)
			require.Equal(t, c.faults, faultsOf(decode.Violations))
		})
	}
}

func TestAnInvalidEventKeepsItsIDs(t *testing.T) {
	policyID := uuid.MustParse("0193b5a0-0000-7000-8000-000000000002")
	revisionID := uuid.MustParse("0193b5a0-0000-7000-8000-000000000003")

	e, err := Decode([]byte(edit(t, revisionBody, `"allow"`, `"drop"`)))
	require.ErrorContains(t, err, "unknown_action")
	require.Equal(t, policyID, e.(RevisionCreated).Policy)
	require.Equal(t, revisionID, e.(RevisionCreated).Revision.ID)

	e, err = Decode([]byte(edit(t, nodeBody, `10.0.0.7`, `ten`)))
	require.ErrorContains(t, err, "invalid_address")
	require.Equal(t, NodeID("node-17"), e.(NodeUpdated).Node)

	for name, body := range map[string]string{
		"an event without its id":       edit(t, nodeBody, `"id":"0193b5a0-0000-7000-8000-000000000004",`, ``),
		"an event without its node":     edit(t, nodeBody, `node-17`, `-`),
		"a revision without its id":     edit(t, revisionBody, `"revision":{"id":"0193b5a0-0000-7000-8000-000000000003",`, `"revision":{`),
		"a deletion without its policy": edit(t, deletedBody, policyID.String(), "x"),
	} {
		e, err = Decode([]byte(body))
		var decode *DecodeError
		require.True(t, errors.As(err, &decode) && decode.Code == Invalid, name)
		require.Nil(t, e, name)
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{revisionBody, nodeBody, deletedBody, removedBody, "{}", "[]", `{"type":"x"}`, `{"type":"node_updated","labels":{"a":"\ud800"}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		e, err := Decode(body)
		if !bytes.Equal(before, body) {
			t.Fatal("Decode wrote into the body")
		}
		var decode *DecodeError
		switch {
		case err == nil:
			again, err := Decode(Append(nil, e))
			if err != nil {
				t.Fatalf("%s\nis an event that does not survive printing: %v", body, err)
			}
			require.Equal(t, e, again)
		case !errors.As(err, &decode) || len(decode.Violations) == 0:
			t.Fatalf("%T without a violation: %v", err, err)
		case !json.Valid(body) && decode.Code != Undecodable:
			t.Fatalf("not JSON, yet %v", err)
		case e != nil && decode.Code != Invalid:
			t.Fatalf("an event beside %v", err)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	for _, c := range []struct{ name, body string }{{"node_updated", nodeBody}, {"policy_revision_created", revisionBody}, {"signing_key_rotated", keyBody}} {
		body := []byte(c.body)
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Decode(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, body := range []string{nodeBody, revisionBody, keyBody} {
		e, err := Decode([]byte(body))
		require.NoError(b, err)
		var room []byte
		b.Run(e.EventType(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				room = Append(room[:0], e)
			}
		})
	}
}
