package compiler_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/netip"
	"sort"
	"testing"

	"github.com/edictdev/edict/internal/compiler"
	"github.com/edictdev/edict/policy"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestGoldenBytes(t *testing.T) {
	cases := []struct {
		name        string
		rules       []policy.Rule
		payload     string
		fingerprint string
	}{
		{"nothing is an empty array", nil, "[]", "T1PNoYwrqgwDVLtfmj7L5e0Sq02OEbqHPC8RFhICuUU="},
		{
			"fields stand in the contract's order",
			rules("allow tcp 10.0.0.0/8 10.1.0.0/16 5432-5433"),
			`[{"source_cidr":"10.0.0.0/8","destination_cidr":"10.1.0.0/16","protocol":"tcp","ports":{"from":5432,"to":5433},"action":"allow"}]`,
			"ZF8JkGRO1Pr834VaKzdmPzWLL+XbfLRYcQqznFOtFsw=",
		},
		{
			"rules without ports leave the field out",
			rules("deny icmp fd00::/8 ::/0"),
			`[{"source_cidr":"fd00::/8","destination_cidr":"::/0","protocol":"icmp","action":"deny"}]`,
			"",
		},
		{
			"CIDRs sort by their bytes, not their numbers",
			rules("allow any 9.0.0.0/8 0.0.0.0/0", "allow any 100.0.0.0/8 0.0.0.0/0", "allow any 10.0.0.0/8 0.0.0.0/0"),
			`[{"source_cidr":"10.0.0.0/8","destination_cidr":"0.0.0.0/0","protocol":"any","action":"allow"},` +
				`{"source_cidr":"100.0.0.0/8","destination_cidr":"0.0.0.0/0","protocol":"any","action":"allow"},` +
				`{"source_cidr":"9.0.0.0/8","destination_cidr":"0.0.0.0/0","protocol":"any","action":"allow"}]`,
			"",
		},
		{
			"ports sort by their numbers, from before to, and the action comes last",
			rules("log tcp 10.0.0.0/8 10.0.0.0/8 80-90", "deny tcp 10.0.0.0/8 10.0.0.0/8 80-80",
				"allow tcp 10.0.0.0/8 10.0.0.0/8 443-443", "allow tcp 10.0.0.0/8 10.0.0.0/8 80-80"),
			`[{"source_cidr":"10.0.0.0/8","destination_cidr":"10.0.0.0/8","protocol":"tcp","ports":{"from":80,"to":80},"action":"allow"},` +
				`{"source_cidr":"10.0.0.0/8","destination_cidr":"10.0.0.0/8","protocol":"tcp","ports":{"from":80,"to":80},"action":"deny"},` +
				`{"source_cidr":"10.0.0.0/8","destination_cidr":"10.0.0.0/8","protocol":"tcp","ports":{"from":80,"to":90},"action":"log"},` +
				`{"source_cidr":"10.0.0.0/8","destination_cidr":"10.0.0.0/8","protocol":"tcp","ports":{"from":443,"to":443},"action":"allow"}]`,
			"",
		},
		{
			"said twice, kept once",
			rules("allow any ::/0 ::/0", "deny any ::/0 ::/0", "allow any ::/0 ::/0"),
			`[{"source_cidr":"::/0","destination_cidr":"::/0","protocol":"any","action":"allow"},` +
				`{"source_cidr":"::/0","destination_cidr":"::/0","protocol":"any","action":"deny"}]`,
			"",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			rs := compiler.Compile(c.rules)
			require.Equal(t, c.payload, string(rs.Payload))
			require.EqualValues(t, sha256.Sum256([]byte(c.payload)), rs.Fingerprint)
			if c.fingerprint != "" {
				require.Equal(t, c.fingerprint, rs.Fingerprint.String())
			}
			var list []json.RawMessage
			require.NoError(t, json.Unmarshal(rs.Payload, &list))
			require.Len(t, list, rs.Rules)
		})
	}
}

// The specification's property: 50 seeds, 5 permutations each, inputs derived
// from the seed alone.
func TestPermutationsCompileToTheSameBytes(t *testing.T) {
	for seed := range 50 {
		c := counter(seed)
		in := make([]policy.Rule, 1+c.next(60))
		for i := range in {
			in[i] = c.rule()
		}
		want := compiler.Compile(in)
		for range 5 {
			c.shuffle(len(in), func(i, j int) { in[i], in[j] = in[j], in[i] })
			got := compiler.Compile(in)
			require.True(t, bytes.Equal(want.Payload, got.Payload), "seed %d", seed)
			require.Equal(t, want.Fingerprint, got.Fingerprint, "seed %d", seed)
		}
	}
}

// slow is the specification written down naively: a shadow struct through
// encoding/json, sorted by a comparison of printed fields.
func slow(in []policy.Rule) []byte {
	type ports struct {
		From uint16 `json:"from"`
		To   uint16 `json:"to"`
	}
	type shadow struct {
		Source      string `json:"source_cidr,omitempty"`
		Destination string `json:"destination_cidr,omitempty"`
		Protocol    string `json:"protocol"`
		Ports       *ports `json:"ports,omitempty"`
		Action      string `json:"action"`
		From        string `json:"source_selector,omitempty"`
		To          string `json:"destination_selector,omitempty"`
		Proxy       int    `json:"proxy_port,omitempty"`
		Listener    int    `json:"listener_priority,omitempty"`
		Auth        string `json:"auth,omitempty"`
		Direction   string `json:"direction,omitempty"`
	}
	text := func(p netip.Prefix) string {
		if !p.IsValid() {
			return ""
		}
		return p.String()
	}
	seen := map[string]bool{}
	type entry struct {
		key string
		s   shadow
	}
	entries := []entry{}
	for _, r := range in {
		s := shadow{
			text(r.Source), text(r.Destination), string(r.Protocol), nil, string(r.Action),
			r.SourceSelector, r.DestinationSelector, int(r.ProxyPort), int(r.ListenerPriority), string(r.Auth), string(r.Direction),
		}
		if r.Ports.From != 0 {
			s.Ports = &ports{r.Ports.From, r.Ports.To}
		}
		key := fmt.Sprintf("%s\x00%s\x00%s\x00%05d\x00%05d\x00%s\x00%s\x00%s\x00%05d\x00%05d\x00%s\x00%s", s.Source, s.Destination, s.Protocol, r.Ports.From, r.Ports.To, s.Action,
			s.From, s.To, s.Proxy, s.Listener, s.Auth, s.Direction)
		if !seen[key] {
			seen[key] = true
			entries = append(entries, entry{key, s})
		}
	}
	sort.Slice(entries, func(i, j int) bool { return entries[i].key < entries[j].key })
	list := make([]shadow, len(entries))
	for i, e := range entries {
		list[i] = e.s
	}
	b, _ := json.Marshal(list)
	return b
}

func TestCompileEqualsTheSlowOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyRules(t)
		before := append([]policy.Rule(nil), in...)
		rs := compiler.Compile(in)
		if want := slow(in); !bytes.Equal(want, rs.Payload) {
			t.Fatalf("want %s\n got %s", want, rs.Payload)
		}
		canonical := compiler.Canonical(in)
		if len(canonical) != rs.Rules {
			t.Fatalf("%d canonical rules, %d in the payload", len(canonical), rs.Rules)
		}
		for i := 1; i < len(canonical); i++ {
			if canonical[i-1].Compare(canonical[i]) >= 0 {
				t.Fatalf("%v is not below %v", canonical[i-1], canonical[i])
			}
		}
		for i := range in {
			if in[i] != before[i] {
				t.Fatal("Compile changed its argument")
			}
		}
	})
}

func TestFingerprintText(t *testing.T) {
	text := compiler.Empty.Fingerprint.String()
	require.Len(t, text, 44)
	var f compiler.Fingerprint
	require.NoError(t, f.UnmarshalText([]byte(text)))
	require.Equal(t, compiler.Empty.Fingerprint, f)
	for name, bad := range map[string]string{
		"empty": "", "short": text[:43], "long": text + "A", "33 bytes": text[:43] + "A",
		"loose last bits": text[:42] + "V=", "a line break inside": text[:20] + "\n" + text[20:43], "not base64": "!" + text[1:],
	} {
		require.Error(t, f.UnmarshalText([]byte(bad)), name)
	}
	require.Equal(t, compiler.Empty.Fingerprint, f, "a failed read leaves the value alone")
}

func BenchmarkCompile(b *testing.B) {
	for _, n := range []int{8, 1024} {
		c := counter(1)
		in := make([]policy.Rule, n)
		for i := range in {
			in[i] = c.rule()
		}
		b.Run(fmt.Sprintf("%d rules", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				compiler.Compile(in)
			}
		})
	}
}
