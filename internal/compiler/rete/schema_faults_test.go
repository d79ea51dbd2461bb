package rete_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"

	"github.com/edictdev/edict/internal/compiler/rete"
	"github.com/edictdev/edict/internal/test/gen"
	"github.com/edictdev/edict/internal/test/reterepo"
)

// faultOfOne is a mistake in one file of the example, and the rule that it breaks.
type faultOfOne struct {
	rule, what     string
	file, from, to string
}

// What editors refuse before anybody validates.
var schemaRefuses = []faultOfOne{
	{"1", "an unknown field", "nodes.yaml", "vertices:\n      - { name: flor, kind: link, type: quic }", "vertexes:\n      - { name: flor, kind: link, type: quic }"},
	{"1", "a host's name", "services/mgmt.yaml", `"127.0.0.1:9000"`, `"localhost:9000"`},
	{"1", "a port above 65535", "services/mgmt.yaml", `"127.0.0.1:9000"`, `"127.0.0.1:99999"`},
	{"1", "the first port that is none", "services/mgmt.yaml", `"127.0.0.1:9000"`, `"127.0.0.1:65536"`},
	{"1", "port 0", "services/mgmt.yaml", `"127.0.0.1:9000"`, `"127.0.0.1:0"`},
	{"1", "an octet above 255", "services/mgmt.yaml", `"127.0.0.1:9000"`, `"999.999.999.999:9000"`},
	{"1", "an octet with a leading zero", "services/mgmt.yaml", `"127.0.0.1:9000"`, `"127.0.0.01:9000"`},
	{"1", "IPv6 without brackets", "services/mgmt.yaml", `"127.0.0.1:9000"`, `"::1:9000"`},
	{"1", "IPv6 with two gaps", "services/mgmt.yaml", `"127.0.0.1:9000"`, `"[1::2::3]:9000"`},
	{"1", "IPv6 with nine groups", "services/mgmt.yaml", `"127.0.0.1:9000"`, `"[1:2:3:4:5:6:7:8:9]:9000"`},
	{"1", "IPv6 with a zone", "services/mgmt.yaml", `"127.0.0.1:9000"`, `"[fe80::1%eth0]:9000"`},
	{"1", "a path out of the repository", "rete.yaml", "cert: certs/ca.crt", "cert: ../ca.crt"},
	{"1", "an absolute path", "rete.yaml", "cert: certs/ca.crt", "cert: /etc/ca.crt"},
	{"1", "a path with a dot in it", "rete.yaml", "cert: certs/ca.crt", "cert: certs/./ca.crt"},
	{"1", "a rete's name in upper case", "rete.yaml", "name: rete-lovers", "name: Rete-Lovers"},
	{"1", "a pattern out of the repository", "rete.yaml", "rete:\n", "source: { exclude: [\"a/../../b\"] }\nrete:\n"},
	{"1", "a pattern of too many alternatives", "rete.yaml", "rete:\n", "source: { exclude: [\"" + strings.Repeat("{a,b}", 13) + "\"] }\nrete:\n"},
	{"1", "a validity that no certificate can have", "rete.yaml", "validity_days: 3650", "validity_days: 36501"},
	{"2", "a role listed twice", "users.yaml", "roles: [developer]", "roles: [developer, developer]"},
	{"2", "a role that cannot have that name", "users.yaml", "roles: [developer]", "roles: [Developer]"},
	{"2", "a device listed twice", "users.yaml", "[ { at: mgmt } ]", "[ { at: mgmt }, { at: mgmt } ]"},
	{"3", "a user's name in upper case", "users.yaml", "  bob:", "  Bob:"},
	{"3", "a reserved name", "nodes.yaml", "  beta:", "  con:"},
	{"3", "a group's name with a blank", "access.yaml", "admin: }", "admin: , \"a b\": }"},
	{"3", "a role's name that is too long", "access.yaml", "  developer: ", "  " + strings.Repeat("a", 64) + ": { allow: [] }\n  developer: "},
	{"3", "a vertex's reserved name", "nodes.yaml", "      - { name: flor, kind: link, type: quic }", "      - { name: agent, kind: link, type: quic }"},
	{"5", "a node that cannot have that name", "services/teams.yaml", "at: alpha\n", "at: Alpha\n"},
	{"6", "the config-server in no group", "services/mgmt.yaml", "groups: [config-read]", "groups: []"},
	{"7", "a reserved role that grants more", "access.yaml", "node:        { allow: [config-read] }", "node:        { allow: [config-read, api] }"},
	{"7", "another role that grants a reserved group", "access.yaml", "devops:      { allow: [api, db, admin] }", "devops:      { allow: [api, db, config-write] }"},
	{"7", "another service in a reserved group", "services/teams.yaml", "groups: [brokers]", "groups: [brokers, config-read]"},
	{"7", "the config-server in the other reserved group", "services/mgmt.yaml", "groups: [config-read]", "groups: [config-read, config-write]"},
	{"7", "a user with the role of nodes", "users.yaml", "roles: [developer]", "roles: [node]"},
	{"8a", "no signer", "rete.yaml", "keys:\n        - { name: primary, cert: certs/management-planes/primary.crt }", "keys: []"},
	{"8a", "a signer's certificate elsewhere", "rete.yaml", "certs/management-planes/primary.crt", "certs/primary.crt"},
	{"8a", "a signer listed twice", "rete.yaml", "        - { name: primary, cert: certs/management-planes/primary.crt }", strings.TrimSuffix(strings.Repeat("        - { name: primary, cert: certs/management-planes/primary.crt }\n", 2), "\n")},
	{"9", "a node without a vertex", "nodes.yaml", "vertices:\n      - { name: flor, kind: link, type: quic }", "vertices: []"},
	{"9", "a node with a mesh", "nodes.yaml", "      - { name: flor, kind: link, type: quic }", "      - { name: flor, kind: mesh, type: quic }"},
	{"9", "a node with two links of type quic", "nodes.yaml", "      - { name: flor, kind: link, type: quic }", "      - { name: flor, kind: link, type: quic }\n      - { name: two, kind: link, type: quic }"},
	{"9", "a node whose only link is of type udp", "nodes.yaml", "      - { name: flor, kind: link, type: quic }", "      - { name: flor, kind: link, type: udp }"},
	{"9", "a link with uses", "nodes.yaml", "      - { name: flor, kind: link, type: quic }", "      - { name: flor, kind: link, type: quic, uses: [x] }"},
	{"9", "an address of the machine itself", "nodes.yaml", `"5.6.7.8:4433"`, `"127.0.0.1:4433"`},
	{"9", "any address", "nodes.yaml", `"5.6.7.8:4433"`, `"0.0.0.0:4433"`},
	{"9", "an address of a group", "nodes.yaml", `"5.6.7.8:4433"`, `"224.0.0.1:4433"`},
	{"9", "an address of one link", "nodes.yaml", `"5.6.7.8:4433"`, `"[fe80::1]:4433"`},
	{"10", "a vertex that cannot have that name", "services/teams.yaml", "    at: alpha\n", "    at: alpha\n    via: \"no name\"\n"},
	{"11", "a group listed twice", "services/teams.yaml", "groups: [db]", "groups: [db, db]"},
	{"12", "a listener without roles", "services/teams.yaml", "groups: [db] }", "groups: [db], socks5_proxy: \"127.0.0.1:1\" }"},
	{"13", "an unknown key at the top", "access.yaml", "roles:\n", "rolls:\n"},
	{"13", "source beside the rete block and in it", "rete.yaml", "rete:\n", "source: {}\nrete:\n  source: {}\n"},
}

// What no schema of one file can know, and why.
var schemaCannot = []struct {
	faultOfOne
	why string
}{
	{faultOfOne{"2", "a role that is not defined", "users.yaml", "roles: [developer]", "roles: [developers]"}, "names are defined in other entries and files"},
	{faultOfOne{"2", "a device listed twice in two ways", "users.yaml", "[ { at: mgmt } ]", "[ { at: mgmt }, { at: mgmt, via: flor } ]"}, "the vertex is named by the node"},
	{faultOfOne{"3", "a name of two kinds", "users.yaml", "  alice:", "  alpha:"}, "names are defined in other entries and files"},
	{faultOfOne{"4", "who is not enrolled", "users.yaml", "  alice:", "  carol:"}, "the enrollment log says so"},
	{faultOfOne{"5", "a node that is not defined", "services/teams.yaml", "at: alpha\n", "at: gamma\n"}, "names are defined in other entries and files"},
	{faultOfOne{"6", "no config-publisher", "services/mgmt.yaml", "  config-publisher: { at: mgmt, addr: \"127.0.0.1:9001\", groups: [config-write] }\n", ""}, "it may be in another file"},
	{faultOfOne{"7", "a reserved role that is missing", "access.yaml", "  node:        { allow: [config-read] }\n", ""}, "it may be in another file"},
	{faultOfOne{"8", "nobody is an operator", "users.yaml", "[operator, devops]", "[devops]"}, "it may be in another file"},
	{faultOfOne{"8a", "a certificate of another name", "rete.yaml", "name: primary,", "name: backup,"}, "the certificate says so"},
	{faultOfOne{"9", "an address of two nodes", "nodes.yaml", `"5.6.7.8:4433"`, `"1.2.3.4:4433"`}, "it is another entry's"},
	{faultOfOne{"9", "the machine itself, written in full", "nodes.yaml", `"5.6.7.8:4433"`, `"[0:0:0:0:0:0:0:1]:4433"`}, "an IPv6 address has many texts"},
	{faultOfOne{"9", "a host of services without an address", "nodes.yaml", `, address: "5.6.7.8:4433" }`, ` }`}, "services say where they are"},
	{faultOfOne{"10", "several vertices, and no via", "nodes.yaml", `address: "5.6.7.8:4433" }`, `address: "5.6.7.8:4433" }` + "\n      - { name: side, kind: link, type: udp }\n    agent_via: flor"}, "services say where they are"},
	{faultOfOne{"11", "a group that is not defined", "services/teams.yaml", "groups: [brokers]", "groups: [broker]"}, "names are defined in other entries and files"},
	{faultOfOne{"13", "two rete blocks", "users.yaml", "users:\n", "rete: { name: two, ca: { cert: certs/ca.crt }, signers: { mgmt: { keys: [ { name: primary, cert: certs/management-planes/primary.crt } ] } } }\nusers:\n"}, "the other is in another file"},
	{faultOfOne{"14", "two vertices at one port", "nodes.yaml", `address: "5.6.7.8:4433" }`, `address: "5.6.7.8:4433" }` + "\n      - { name: side, kind: link, type: udp, address: \"5.6.7.9:4433\" }\n    agent_via: flor"}, "it compares two of a list"},
	{faultOfOne{"14", "two vertices at one port, of IPv4 and IPv6", "nodes.yaml", `address: "5.6.7.8:4433" }`, `address: "5.6.7.8:4433" }` + "\n      - { name: side, kind: link, type: udp, address: \"[2001:db8::1]:4433\" }\n    agent_via: flor"}, "it compares two of a list"},
	{faultOfOne{"14", "two listeners at one port", "services/mgmt.yaml", `"127.0.0.1:9001"`, `"127.0.0.1:9001", roles: [operator], socks5_proxy: "127.0.0.1:9000"`}, "it is another entry's"},
}

// tried makes the mistake: which rules it breaks, and what the schema says.
func (f faultOfOne) tried(t *testing.T) (rules []string, refused error) {
	t.Helper()
	repo := reterepo.Example()
	text := string(repo[f.file].Data)
	require.Equal(t, 1, strings.Count(text, f.from), "%q is in %s", f.from, f.file)
	repo[f.file] = &fstest.MapFile{Data: []byte(strings.Replace(text, f.from, f.to, 1))}
	var doc any
	require.NoError(t, yaml.Unmarshal(repo[f.file].Data, &doc))
	return brokenRules(repo), compiledSchema(t, "file.schema.json").Validate(doc)
}

func TestTheSchemaRefusesWhatValidateRefuses(t *testing.T) {
	gen.Unraced()
	for _, f := range schemaRefuses {
		t.Run(f.what, func(t *testing.T) {
			rules, refused := f.tried(t)
			require.Contains(t, rules, f.rule)
			require.Error(t, refused)
		})
	}
	for _, f := range schemaCannot {
		t.Run(f.what, func(t *testing.T) {
			rules, refused := f.tried(t)
			require.Contains(t, rules, f.rule)
			require.NoError(t, refused, "the schema can: %s", f.why)
		})
	}
	for _, r := range rete.Rules {
		in := func(f faultOfOne) bool { return f.rule == r.Number }
		beyond := r.Number == "15" // it is about files that no schema is for
		require.True(t, beyond || slices.ContainsFunc(schemaRefuses, in) || slices.ContainsFunc(schemaCannot, func(f struct {
			faultOfOne
			why string
		},
		) bool {
			return in(f.faultOfOne)
		}), "rule %s has a fault here", r.Number)
	}
}

// What validate takes, the schema takes, whatever it looks like.
func TestTheSchemaTakesWhatValidateTakes(t *testing.T) {
	gen.Unraced()
	for _, address := range []string{
		"127.0.0.1:1", "255.255.255.255:65535", "0.0.0.0:0080", "[::]:1", "[::1]:8000", "[1:2:3:4:5:6:7:8]:9", "[1::8]:9", "[1:2:3:4:5:6:7::]:9", "[::2:3:4:5:6:7:8]:9",
		"[1:2:3:4::6:7:8]:9", "[::ffff:1.2.3.4]:9", "[64:ff9b::1.2.3.4]:9", "[1:2:3:4:5:6:1.2.3.4]:9", "[2001:DB8::aB]:65535",
	} {
		f := faultOfOne{file: "services/mgmt.yaml", from: `"127.0.0.1:9000"`, to: `"` + address + `"`}
		rules, refused := f.tried(t)
		require.Empty(t, rules, address)
		require.NoError(t, refused, address)
	}
	for _, to := range []string{"cert: ..certs/ca.crt", "cert: certs/.ca", "cert: certs/a b"} {
		_, refused := faultOfOne{file: "rete.yaml", from: "cert: certs/ca.crt", to: to}.tried(t)
		require.NoError(t, refused, to)
	}
}
