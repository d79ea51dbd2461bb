package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/edictdev/edict/api/resource"
	"github.com/edictdev/edict/cmd/edict/internal/author"
	"github.com/edictdev/edict/internal/compiler/lint"
	"github.com/edictdev/edict/policy"
)

func TestAWarningAboutAPolicyThatIsReplacedIsLeftOut(t *testing.T) {
	fault := func(pointer string) resource.Fault {
		return resource.Fault{Pointer: pointer, Code: lint.CodeShadows, Detail: "rule 0 (deny) of policy walls never decides"}
	}
	found := []lint.Warning{{Violation: policy.Violation(fault("/rules/0"))}}
	theirs := []resource.Warning{
		{Fault: fault("/rules/0")},
		{Fault: fault("/rules/1"), Policy: "walls"},
		{Fault: fault("/rules/2"), Policy: "others"},
	}

	got := unseen(found, theirs, []author.Draft{{Draft: resource.Draft{Slug: "walls"}}})

	require.Equal(t, []lint.Warning{{Violation: policy.Violation(fault("/rules/2")), Policy: "others"}}, got,
		"the one found here and the one about the replaced policy are left out, whatever their texts say")
}
