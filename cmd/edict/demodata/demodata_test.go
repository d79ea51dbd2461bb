package demodata_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"

	"github.com/edictdev/edict/cmd/edict/demodata"
	"github.com/edictdev/edict/internal/test/oracle"
	"github.com/edictdev/edict/policy"
)

const project = "00000000-0000-4000-8000-000000000000"

type document struct {
	slug string
	body []byte
}

// documents are the shipped policies as the JSON that creates them.
func documents(t *testing.T) []document {
	t.Helper()
	var all []document
	d := yaml.NewDecoder(bytes.NewReader(demodata.Policies))
	for {
		var doc map[string]any
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err, "document %d", len(all)+1)
		body, err := json.Marshal(doc)
		require.NoError(t, err)
		slug, _ := doc["slug"].(string)
		all = append(all, document{slug, body})
	}
}

func TestEveryShippedPolicyIsOneAnAuthorMayCreate(t *testing.T) {
	slugs := map[string]bool{}
	for _, d := range documents(t) {
		_, err := policy.DecodeDraft(d.body)
		require.NoError(t, err, "%s", d.body)
		require.False(t, slugs[d.slug], "%s stands twice", d.slug)
		slugs[d.slug] = true
	}
	require.GreaterOrEqual(t, len(slugs), 36)
}

func TestEveryNodeIsOneThatMayBeRegistered(t *testing.T) {
	ids, addresses := map[string]bool{}, map[string]bool{}
	for i := range demodata.Nodes {
		n := demodata.Node(i)
		ids[n.ID] = true
		for _, a := range n.Addresses {
			addresses[netip.MustParseAddr(a).String()] = true
		}
		if i%97 == 0 {
			line, err := json.Marshal(n)
			require.NoError(t, err)
			_, _, err = policy.DecodeNodeLine(line)
			require.NoError(t, err, "%s", line)
		}
	}
	require.Len(t, ids, demodata.Nodes)
	require.Len(t, addresses, 2*demodata.Nodes)
}

func TestPoliciesAndNodesConcernEachOther(t *testing.T) {
	var p oracle.Plane
	docs := documents(t)
	slugs := map[string]string{}
	for i, d := range docs {
		var body oracle.Body
		require.NoError(t, json.Unmarshal(d.body, &body))
		id := fmt.Sprintf("policy-%02d", i)
		slugs[id] = d.slug
		require.NoError(t, p.SetPolicy(project, id, "r", body))
	}
	sets := map[string]int{} // nodes by label set
	for i := range demodata.Nodes {
		n := demodata.Node(i)
		key, err := json.Marshal(n.Labels)
		require.NoError(t, err)
		sets[string(key)]++
	}
	require.GreaterOrEqual(t, len(sets), 60)
	require.LessOrEqual(t, len(sets), 200)

	matched := map[string]int{} // nodes by slug
	rows := 0
	for key, count := range sets {
		var labels map[string]string
		require.NoError(t, json.Unmarshal([]byte(key), &labels))
		p.SetNode(project, "n", labels)
		mine := p.Rows("n")
		require.NotEmpty(t, mine, key)
		rows += count * len(mine)
		for _, r := range mine {
			matched[slugs[r.Policy]] += count
		}
	}
	t.Logf("%d policies, %d label sets, %d rows", len(docs), len(sets), rows)
	narrow := 0
	for _, d := range docs {
		n := matched[d.slug]
		t.Logf("%6d nodes  %s", n, d.slug)
		require.Positive(t, n, "%s matches no node", d.slug)
		if n < demodata.Nodes/2 {
			narrow++
		}
	}
	require.Greater(t, narrow, len(docs)/2, "most policies concern a part of the fleet")
}
