package admission

import (
	"context"
	"fmt"
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/cover"
)

// Coverage is what of a policy's code its tests made the evaluator look at.
type Coverage struct {
	// Percent of the lines that can be covered, 0 to 100; 100 where there are none.
	Percent float64 `json:"percent"`
	// NotCovered are the others, by number from 1.
	NotCovered []int `json:"not_covered"`
}

// codeFile is what the code is called where the evaluator must call it something.
const codeFile = "policy.rego"

// TestCovered compiles a policy, runs the tests that it carries, and says what of its
// code they cover. Errors are those of [Compile].
func (e *Engine) TestCovered(ctx context.Context, p Policy) ([]TestResult, Coverage, error) {
	if _, err := Compile(ctx, p); err != nil { // with its bounds
		return nil, Coverage{}, err
	}
	made, j, err := compileFile(codeFile, p.Rego)
	if err != nil {
		return nil, Coverage{}, err
	}
	made.cover = cover.New()
	results := e.Test(ctx, newCompiled(p, ownCode(p, made, j)))
	module, err := ast.ParseModuleWithOpts(codeFile, p.Rego, ast.ParserOptions{Capabilities: capabilities(), RegoVersion: ast.RegoV1})
	if err != nil {
		return results, Coverage{}, fmt.Errorf("parse the code again: %w", err)
	}
	return results, coverageOf(made.cover.Report(map[string]*ast.Module{codeFile: module})), nil
}

func coverageOf(r cover.Report) Coverage {
	out := Coverage{Percent: 100, NotCovered: []int{}}
	if r.CoveredLines+r.NotCoveredLines > 0 {
		out.Percent = r.Coverage
	}
	file := r.Files[codeFile]
	if file == nil {
		return out
	}
	for _, rows := range file.NotCovered {
		for row := rows.Start.Row; row <= rows.End.Row; row++ {
			out.NotCovered = append(out.NotCovered, row)
		}
	}
	slices.Sort(out.NotCovered)
	out.NotCovered = slices.Compact(out.NotCovered)
	return out
}
