package admission

import (
	"github.com/open-policy-agent/opa/v1/ast"
)

// dialect is one of the two ways in which policies are asked and answer: the
// specification's, and that of the field's existing clients. The package of the
// policy says which.
type dialect struct {
	entry string // the rule that is evaluated
	// The names of the fields of a decision; a dialect has all or none of
	// them inside "service_provider".
	reject, reason string
	provider       string // a string; or an object, when nested
	restriction    string // provider constraints; "" when nested
	nested         bool
	// nullIsSilence takes a null decision for an undefined one.
	nullIsSilence bool
	// emptyMeansAny takes an empty allow list for none at all.
	emptyMeansAny bool
}

var (
	specified = &dialect{
		entry: "result", reject: "reject", reason: "reason", provider: "service_provider", nested: true,
	}
	inherited = &dialect{
		entry: "main", reject: "rejected", reason: "rejection_reason", provider: "selected_provider",
		restriction: "service_provider_constraints", nullIsSilence: true, emptyMeansAny: true,
	}
)

var specifiedRoot = ast.Ref{ast.DefaultRootDocument, ast.StringTerm("dcm"), ast.StringTerm("policy")}

func dialectOf(p *ast.Package) *dialect {
	if p.Path.HasPrefix(specifiedRoot) && len(p.Path) > len(specifiedRoot) {
		return specified
	}
	return inherited
}

// isDeclared says whether a rule of the module makes the dialect's entry point.
func (d *dialect) isDeclared(module *ast.Module) bool {
	for _, r := range module.Rules {
		if name, ok := r.Head.Ref()[0].Value.(ast.Var); ok && string(name) == d.entry {
			return true
		}
	}
	return false
}

// restrictionField is where a decision restricts the provider.
func (d *dialect) restrictionField() string {
	if d.nested {
		return d.provider + ".constraints"
	}
	return d.restriction
}
