package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/internal/admission"
)

func TestATableObeysNobodysEscapes(t *testing.T) {
	var out strings.Builder
	columns(&out, []string{"principal"}, [][]string{{"root\x1b[2K\x1b[1A"}, {"a\tb\u202ec\x9b"}, {"ana süd\ntwo"}})
	require.Equal(t, "PRINCIPAL\nroot\\x1b[2K\\x1b[1A\na\\tb\\u202ec\ufffd\nana süd\ntwo\n", out.String())
}

// Any principal writes admission policies of his own, and who appends over NATS may give any
// author: what others read of that is no command to their terminals, and no line of ours.
func TestADescriptionObeysNobodysEscapes(t *testing.T) {
	var out strings.Builder
	writeAdmission(&out, resource.AdmissionPolicy{
		Name: "mine", PolicyType: "User", UserID: "eve", Enabled: true, Mode: "shadow", CreatedBy: "eve",
		Description: "harmless\nMode:         enforce\x1b[2J", RegoCode: "package x\r\n\n# \x1b]0;title\a\u202e\n\tmain := {}\n",
	})
	require.NotContains(t, out.String(), "\nMode:         enforce")
	require.Contains(t, out.String(), `Description:  harmless\nMode:         enforce\x1b[2J`)
	require.Contains(t, out.String(), "package x\n\n# \\x1b]0;title\\a\\u202e\n\tmain := {}\n")
	out.Reset()
	writePolicy(&out, resource.Policy{
		Slug: "web", DisplayName: "a\u202eb", Waves: &resource.Waves{Phase: "aborted", Reason: "no\u2028way"},
		Head: &resource.Revision{CreatedBy: "root\x1b[2K\nBy:           ana"},
	})
	require.Contains(t, out.String(), `Name:         a\u202eb`)
	require.Contains(t, out.String(), `no\u2028way`)
	require.Contains(t, out.String(), `By:           root\x1b[2K\nBy:           ana`)
}

// The tests of 'edict admission list -o yaml' are everybody's, and so is what an evaluation gives.
func TestWhatPoliciesGiveObeysNobodysEscapes(t *testing.T) {
	var out strings.Builder
	writeTested(&out, []tested{{Name: "mine", Results: []admission.TestResult{{Name: "good\x1b[2J\nok    theirs: good"}, {Name: "bad\n", Failure: "no\u202e\nway"}}}})
	require.Equal(t, `ok    mine: good\x1b[2J\nok    theirs: good`+"\n"+`FAIL  mine: bad\n: no\u202e\nway`+"\n", out.String())
	out.Reset()
	var r resource.Admitted
	r.ServiceProvider.Value = "aws\nAllowed:   all"
	r.ServiceProvider.Constraints.AllowList, r.ServiceProvider.Constraints.Patterns = []string{"a\x1b[1A"}, []string{"b\a"}
	r.RequestPayload = []byte("{\"a\":\"b\u202e\"}")
	writeAdmitted(&out, r)
	require.Contains(t, out.String(), `Provider:  aws\nAllowed:   all`+"\n"+`Allowed:   a\x1b[1A`+"\n"+`Patterns:  b\a`+"\n")
	require.Contains(t, out.String(), `"b\u202e"`)
}
