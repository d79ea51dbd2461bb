package author

import (
	"encoding/json"
	"path/filepath"

	"github.com/edictdev/edict/cmd/edict/internal/document"
)

// OtherKind says what a document is that is no policy, and which command takes it; "": it may
// be meant as a policy.
func OtherKind(doc document.Document) string {
	var members map[string]json.RawMessage
	if json.Unmarshal(doc.JSON, &members) != nil {
		return ""
	}
	has := func(names ...string) bool {
		for _, name := range names {
			if _, ok := members[name]; ok {
				return true
			}
		}
		return false
	}
	switch {
	case has("slug", "selector", "rules", "head_revision_id"):
		return ""
	case has("rego_code", "rego_file"):
		return "this is an admission policy: edict admission apply -f " + fileArgument(doc.File)
	case !has("id") || !has("labels", "addresses"):
		return ""
	case filepath.Ext(doc.File) == ".yaml" || filepath.Ext(doc.File) == ".yml": // which node import does not read
		return "this is a node: edict node apply ID --label KEY=VALUE --address ADDRESS, or a line of NDJSON for edict node import -f FILE"
	}
	return "this is a node: edict node import -f " + fileArgument(doc.File)
}
