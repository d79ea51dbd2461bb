package artifact

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// noticeRun signs notices as one run, spelt out by the rule of the protocol.
func noticeRun(t *testing.T, s *Signer, notices []Notice) (docs []string) {
	t.Helper()
	leaves, paths := make([]digest, len(notices)), make([]inclusion, len(notices))
	for i := range notices {
		notices[i].KeyID = s.KeyID()
		signed, err := notices[i].signingBytes()
		require.NoError(t, err)
		leaves[i] = hashLeaf(signed)
	}
	value := base64.StdEncoding.EncodeToString(s.Sign(batchText(len(notices), grow(leaves, paths))))
	for i, n := range notices {
		signed, err := n.signingBytes()
		require.NoError(t, err)
		docs = append(docs, fmt.Sprintf(`%s,"signature":{"alg":"ed25519-merkle","key_id":%q,"leaf":%d,"path":%q,"size":%d,"value":%q}}`,
			signed[:len(signed)-1], s.KeyID(), i, base64.StdEncoding.EncodeToString(paths[i].bytes()), len(notices), value))
	}
	return docs
}

func TestANoticeOfARunVerifiesAlone(t *testing.T) {
	s, err := GenerateSigner()
	require.NoError(t, err)
	trust := NewTrustSet()
	require.NoError(t, trust.Add(PlanePolicy, s.KeyID(), s.PublicKey(), time.Time{}))
	now := time.Now()
	for _, size := range []int{2, 3, 7, MaxRun} {
		var all []Notice
		for i := range size {
			all = append(all, Notice{ID: fmt.Sprintf("n1.%d", i), Type: "policy_updated", Scope: "node:n1", IssuedAt: now, Payload: json.RawMessage(`{"i":"<&>"}`)})
		}
		for i, doc := range noticeRun(t, s, all) {
			n, err := trust.Check([]byte(doc), now)
			require.NoError(t, err, "%d of %d", i, size)
			require.Equal(t, all[i].ID, n.ID)
		}
	}
}

func TestANoticeThatIsNotInItsRunIsRefused(t *testing.T) {
	s, err := GenerateSigner()
	require.NoError(t, err)
	trust := NewTrustSet()
	require.NoError(t, trust.Add(PlanePolicy, s.KeyID(), s.PublicKey(), time.Time{}))
	now := time.Now()
	notice := func(id string) Notice {
		return Notice{ID: id, Type: "policy_updated", Scope: "node:n1", IssuedAt: now, Payload: json.RawMessage(`{"a":1}`)}
	}
	docs := noticeRun(t, s, []Notice{notice("n1.1"), notice("n1.2"), notice("n1.3")})
	one := notice("n1.1")
	one.KeyID = s.KeyID()
	signed, err := one.signingBytes()
	require.NoError(t, err)
	object := func(members string) string { return string(signed[:len(signed)-1]) + `,"signature":{` + members + `}}` }
	plain := fmt.Sprintf(`"alg":"ed25519","key_id":%q,"value":%q`, s.KeyID(), base64.StdEncoding.EncodeToString(s.Sign(signed)))
	_, err = trust.Check([]byte(object(plain)), now)
	require.NoError(t, err, "a run of one")
	for name, c := range map[string]struct {
		doc  string
		want error
	}{
		"changed":                      {strings.Replace(docs[0], `{"a":1}`, `{"a":2}`, 1), ErrBadSignature},
		"the proof of another":         {strings.Replace(docs[0], `"leaf":0`, `"leaf":1`, 1), ErrBadSignature},
		"another size":                 {strings.Replace(docs[0], `"size":3`, `"size":4`, 1), ErrBadSignature},
		"no path":                      {object(strings.Replace(plain, `"ed25519"`, `"ed25519-merkle"`, 1)), ErrMalformed},
		"a path that no plain one has": {object(plain + `,"leaf":0,"path":"","size":1`), ErrMalformed},
		"a run of one as a tree":       {object(strings.Replace(plain, `"ed25519"`, `"ed25519-merkle"`, 1) + `,"leaf":0,"path":"","size":1`), ErrBadSignature},
		"an unknown algorithm":         {object(strings.Replace(plain, `"ed25519"`, `"none"`, 1)), ErrBadSignature},
		"another key's id beside it":   {object(strings.Replace(plain, s.KeyID(), "ed25519:0", 1)), ErrBadSignature},
		"no value":                     {object(fmt.Sprintf(`"alg":"ed25519","key_id":%q`, s.KeyID())), ErrUnsigned},
		"a number":                     {string(signed[:len(signed)-1]) + `,"signature":7}`, ErrMalformed},
		"null":                         {string(signed[:len(signed)-1]) + `,"signature":null}`, ErrUnsigned},
		"none":                         {string(signed), ErrUnsigned},
	} {
		_, err := trust.Check([]byte(c.doc), now)
		require.ErrorIs(t, err, c.want, name)
	}
}
