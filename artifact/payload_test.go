package artifact_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/edictdev/edict/artifact"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// samplePayload has n rules in the compiled field order.
func samplePayload(n int) artifact.PolicyPayload {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`{"source_cidr":"10.0.%d.0/24","destination_cidr":"10.1.0.0/16","protocol":"tcp","ports":{"from":80,"to":%d},"action":"allow"}`, i%256, 80+i)
	}
	rules := "[" + strings.Join(list, ",") + "]"
	return artifact.PolicyPayload{
		NodeID: "node-17", PolicyID: uuid.MustParse("0193b5a0-0000-7000-8000-000000000002"),
		RevisionID: uuid.MustParse("0193b5a0-0000-7000-8000-000000000003"), Fingerprint: sha256.Sum256([]byte(rules)), Rules: []byte(rules),
	}
}

func TestPolicyPayload(t *testing.T) {
	p := samplePayload(1)
	doc := p.Append(nil)
	require.Equal(t, `{"node_id":"node-17","policy_id":"0193b5a0-0000-7000-8000-000000000002","revision_id":"0193b5a0-0000-7000-8000-000000000003","fingerprint":"`+
		base64.StdEncoding.EncodeToString(p.Fingerprint[:])+`","rules":`+string(p.Rules)+`}`, string(doc))
	got, err := artifact.ParsePolicyPayload(doc)
	require.NoError(t, err)
	require.Equal(t, p, got)
	require.NoError(t, got.Verify())

	got.Rules = []byte(strings.ReplaceAll(string(p.Rules), ",", ",\n"))
	require.NoError(t, got.Verify(), "white space does not count")
	got.Rules = []byte(strings.ReplaceAll(string(p.Rules), "allow", "deny"))
	require.Error(t, got.Verify())
}

func TestPolicyPayloadsThatAreRefused(t *testing.T) {
	doc := string(samplePayload(1).Append(nil))
	for name, bad := range map[string]string{
		"an unknown field":           strings.Replace(doc, `{"node_id"`, `{"x":1,"node_id"`, 1),
		"no node":                    strings.Replace(doc, `"node_id":"node-17",`, ``, 1),
		"a node id in upper case":    strings.Replace(doc, `node-17`, `NODE`, 1),
		"no policy":                  strings.Replace(doc, `"policy_id":"0193b5a0-0000-7000-8000-000000000002",`, ``, 1),
		"a short fingerprint":        strings.Replace(doc, `"fingerprint":"`, `"fingerprint":"AAAA`, 1),
		"rules that are not a list":  doc[:strings.Index(doc, `"rules":`)] + `"rules":{}}`,
		"rules that are null":        doc[:strings.Index(doc, `"rules":`)] + `"rules":null}`,
		"no rules":                   doc[:strings.Index(doc, `,"rules":`)] + `}`,
		"something after the object": doc + "1",
	} {
		_, err := artifact.ParsePolicyPayload([]byte(bad))
		require.Error(t, err, name)
	}
}
