package admission

import (
	"encoding/json"

	"github.com/open-policy-agent/opa/v1/ast"
)

// Metadata is what the METADATA comment above a policy's package says of it.
type Metadata struct {
	Title, Description string
	Custom             map[string]json.RawMessage
	// Row is where the comment begins, from 1; where there is none, the row of
	// the package clause.
	Row int
}

// ReadMetadata reads the comment. The error is a [*CompileError]: code that
// cannot be parsed, or a comment that is no YAML.
func ReadMetadata(code string) (Metadata, error) {
	if row, col := deepest(code, maxNesting); row > 0 {
		return Metadata{}, oneFault(CodeTooLarge, &ast.Location{Row: row, Col: col}, "brackets stand more than %d deep", maxNesting)
	}
	module, err := ast.ParseModuleWithOpts("", code, ast.ParserOptions{
		Capabilities: capabilities(), RegoVersion: ast.RegoV1, ProcessAnnotation: true,
	})
	if err != nil {
		return Metadata{}, compileError(err)
	}
	if module == nil {
		return Metadata{}, oneFault(ast.ParseErr, nil, "there is no package")
	}
	m := Metadata{Row: module.Package.Location.Row}
	for _, a := range module.Annotations {
		if a.Scope != "package" {
			continue
		}
		m.Title, m.Description, m.Row = a.Title, a.Description, a.Location.Row
		text, err := json.Marshal(a.Custom)
		if err == nil {
			err = json.Unmarshal(text, &m.Custom)
		}
		if err != nil {
			return m, oneFault(ast.ParseErr, a.Location, "custom cannot be read: %v", err)
		}
	}
	return m, nil
}
