package policy

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestNodeIDs(t *testing.T) {
	for _, good := range []string{"a", "0", "node-17", "a--b", "0193b5a0-0000-7000-8000-000000000001", strings.Repeat("a", 63)} {
		id, err := ParseNodeID(good)
		require.NoError(t, err, good)
		require.EqualValues(t, good, id)
	}
	for _, bad := range []string{"", "-a", "a-", "A", "a.b", "a_b", "a b", "é", strings.Repeat("a", 64), "a*", ">"} {
		_, err := ParseNodeID(bad)
		require.ErrorContains(t, err, CodeInvalidNodeID, bad)
	}
}

func TestPartition(t *testing.T) {
	// FNV-1a 32: the published vectors of "", "a" and "foobar".
	require.Equal(t, 0x811c9dc5, NodeID("").Partition(1<<32-1))
	require.Equal(t, 0xe40c292c, NodeID("a").Partition(1<<32-1))
	require.Equal(t, 0xbf9cf968, NodeID("foobar").Partition(1<<32-1))
	require.Equal(t, 0xbf9cf968%64, NodeID("foobar").Partition(64))
	require.Zero(t, testing.AllocsPerRun(10, func() { _ = NodeID("foobar").Partition(64) }))
}

func TestLabelKeysAndValues(t *testing.T) {
	long := strings.Repeat("a", 63)
	for _, good := range []Label{
		{"a", ""},
		{"A_b.c-9", "A_b.c-9"},
		{long, strings.Repeat("v", 256)},
		{"platform/env", "prod"},
		{"acme:checkout/owner", "sre"},
		{"a.b:c-d/x", "0"},
		{strings.Repeat("a.", 126) + "a/" + long, "x"},
	} {
		_, err := NewLabels(map[string]string{good.Key: good.Value}, "/labels")
		require.NoError(t, err, "%v", good)
	}
	cases := []struct{ name, key, value, pointer, code string }{
		{"an empty key", "", "x", "/labels/", CodeInvalidLabelKey},
		{"an empty name", "a/", "x", "/labels/a~1", CodeInvalidLabelKey},
		{"an empty prefix", "/a", "x", "/labels/~1a", CodeInvalidLabelKey},
		{"two slashes", "a/b/c", "x", "/labels/a~1b~1c", CodeInvalidLabelKey},
		{"a long name", long + "a", "x", "/labels/" + long + "a", CodeInvalidLabelKey},
		{"a name that ends badly", "a-", "x", "/labels/a-", CodeInvalidLabelKey},
		{"an upper case prefix", "A/b", "x", "/labels/A~1b", CodeInvalidLabelKey},
		{"an empty part of a prefix", "a::b/c", "x", "/labels/a::b~1c", CodeInvalidLabelKey},
		{"a prefix part that ends in a dash", "a-:b/c", "x", "/labels/a-:b~1c", CodeInvalidLabelKey},
		{"a prefix that ends in a dash", "a-/c", "x", "/labels/a-~1c", CodeInvalidLabelKey},
		{"a prefix that ends in a colon", "a:/c", "x", "/labels/a:~1c", CodeInvalidLabelKey},
		{"a colon in a name", "a:b", "x", "/labels/a:b", CodeInvalidLabelKey},
		{"a tilde", "a~b", "x", "/labels/a~0b", CodeInvalidLabelKey},
		{"a long prefix", strings.Repeat("a", 254) + "/b", "x", "/labels/" + strings.Repeat("a", 254) + "~1b", CodeInvalidLabelKey},
		{"a long value", "a", strings.Repeat("v", 257), "/labels/a", CodeInvalidLabelValue},
		{"a space in a value", "a", "b c", "/labels/a", CodeInvalidLabelValue},
		{"a value that begins badly", "a", ".b", "/labels/a", CodeInvalidLabelValue},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := NewLabels(map[string]string{c.key: c.value}, "/labels")
			v := err.(Violations)
			require.Len(t, v, 1)
			require.Equal(t, c.pointer, v[0].Pointer)
			require.Equal(t, c.code, v[0].Code)

			// The reader of documents says the same.
			var doc []byte
			doc = AppendLabels(append(doc, `{"labels":`...), Labels{{c.key, c.value}})
			_, err = DecodeFacts(append(doc, '}'))
			require.Equal(t, v, err)
		})
	}
}

func TestLimitsOfANode(t *testing.T) {
	labels, texts := map[string]string{}, []string{}
	for i := range 64 {
		labels[fmt.Sprintf("k%d", i)] = "v"
		texts = append(texts, fmt.Sprintf("10.0.0.%d", i))
	}
	l, err := NewLabels(labels, "")
	require.NoError(t, err)
	given, err := DecodeFacts(addressesJSON(texts))
	require.NoError(t, err)
	a := given.Addresses
	facts, err := DecodeFacts(factsJSON(l, a))
	require.NoError(t, err)
	require.Equal(t, Facts{l, a}, facts)

	labels["one-more"] = "v"
	_, err = NewLabels(labels, "/labels")
	require.Equal(t, Violations{{"/labels", CodeTooManyLabels, "65 labels; at most 64"}}, err)
	l = append(l, Label{"one-more", "v"})
	_, err = DecodeFacts(factsJSON(l, append(a, a[0])))
	require.Equal(t, Violations{
		{"/labels", CodeTooManyLabels, "65 labels; at most 64"},
		{"/addresses", CodeTooManyAddresses, "65 addresses; at most 64"},
	}, err)
}

func factsJSON(l Labels, a Addresses) []byte {
	b := AppendLabels([]byte(`{"labels":`), l)
	return append(AppendAddresses(append(b, `,"addresses":`...), a), '}')
}

// addressesJSON are facts as an author may spell addresses.
func addressesJSON(texts []string) []byte {
	list, err := json.Marshal(texts)
	if err != nil {
		panic(err) // texts always can be printed
	}
	return fmt.Appendf(nil, `{"addresses":%s}`, list)
}

func TestAddresses(t *testing.T) {
	f, err := DecodeFacts(addressesJSON([]string{"fd00::2", "10.0.0.2", "10.0.0.1", "FD00:0::2"}))
	require.NoError(t, err)
	require.Equal(t, `["10.0.0.1","10.0.0.2","fd00::2"]`, string(AppendAddresses(nil, f.Addresses)), "sorted, each once")
	for _, bad := range []string{"", "10.0.0.0/8", "fe80::1%eth0", "::ffff:10.0.0.1", "010.0.0.1", "host"} {
		_, err := DecodeFacts(addressesJSON([]string{"::1", bad}))
		v := err.(Violations)
		require.Equal(t, "/addresses/1", v[0].Pointer, bad)
		require.Equal(t, CodeInvalidAddress, v[0].Code)
	}
}

func TestLabelSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.MapOf(rapid.StringMatching(`[a-z]{1,2}`), anyValue).Draw(t, "labels")
		l, err := NewLabels(m, "")
		require.NoError(t, err)
		require.Equal(t, m, l.Map())
		for _, k := range append([]string{"zz", "", "m"}, anyKey.Draw(t, "key")) {
			want, wantOK := m[k]
			got, ok := l.Get(k)
			require.Equal(t, want, got)
			require.Equal(t, wantOK, ok)
		}
		for k, want := range m {
			got, _ := l.Get(k)
			require.Equal(t, want, got)
		}
		o := anyLabels(t)
		require.Equal(t, l.Equal(o), l.Key() == o.Key())
	})
}
