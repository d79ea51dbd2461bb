package admission

import (
	"github.com/open-policy-agent/opa/v1/ast"
)

// inputs is what policies are asked, as terms. Each part is made once and again
// only when it has changed, so a request is converted once however many
// policies it meets.
type inputs struct {
	original, current    *ast.Term
	user, tenant         *ast.Term
	constraints          *ast.Term // nil: changed
	provider, restricted *ast.Term // nil: changed
}

// Keys of the input in both dialects.
var (
	keyOriginal    = ast.StringTerm("original_request_payload")
	keyCurrent     = ast.StringTerm("current_request_payload")
	keyConstraints = ast.StringTerm("constraints")
	keyUser        = ast.StringTerm("user_id")
	keyTenant      = ast.StringTerm("tenant_id")
	keyProvider    = ast.StringTerm("service_provider")
	keyValue       = ast.StringTerm("value")
	keyAllow       = ast.StringTerm("allow_list")
	keyPatterns    = ast.StringTerm("patterns")
	keySpec        = ast.StringTerm("spec")
	keyChosen      = ast.StringTerm("provider")
	keyRestricted  = ast.StringTerm("service_provider_constraints")
)

func (in *inputs) begin(r *Request) {
	in.original = termOf(r.Payload)
	in.current = in.original
	in.user, in.tenant = ast.StringTerm(r.UserID), ast.StringTerm(r.TenantID)
}

// termOf converts a JSON value that a meter has passed, which cannot fail.
func termOf(v any) *ast.Term { return ast.NewTerm(ast.MustInterfaceToValue(v)) }

// patch follows a patch of the payload: what it did not name is kept.
func (in *inputs) patch(payload, patch map[string]any) {
	old := in.current.Value.(ast.Object)
	items := make([][2]*ast.Term, 0, len(payload))
	for k, v := range payload {
		key := ast.StringTerm(k)
		value := old.Get(key)
		if _, named := patch[k]; named || value == nil {
			value = termOf(v)
		}
		items = append(items, ast.Item(key, value))
	}
	in.current = ast.ObjectTerm(items...)
}

// of is the input of a policy of the dialect.
func (in *inputs) of(c *chain, d *dialect) *ast.Term {
	if in.constraints == nil {
		in.constraints = termOf(c.constraints.views())
	}
	if in.provider == nil {
		in.provider, in.restricted = providerTerms(c.provider.state())
	}
	if d == specified {
		return ast.ObjectTerm(
			ast.Item(keyOriginal, in.original),
			ast.Item(keyCurrent, in.current),
			ast.Item(keyConstraints, in.constraints),
			ast.Item(keyUser, in.user),
			ast.Item(keyTenant, in.tenant),
			ast.Item(keyProvider, ast.ObjectTerm(ast.Item(keyValue, in.provider), ast.Item(keyConstraints, in.restricted))),
		)
	}
	items := [][2]*ast.Term{ast.Item(keySpec, in.current), ast.Item(keyChosen, in.provider)}
	if len(c.constraints.keys) > 0 {
		items = append(items, ast.Item(keyConstraints, in.constraints))
	}
	if in.restricted.Value.(ast.Object).Len() > 0 {
		items = append(items, ast.Item(keyRestricted, in.restricted))
	}
	return ast.ObjectTerm(items...)
}

func providerTerms(p ServiceProvider) (value, restricted *ast.Term) {
	var items [][2]*ast.Term
	if p.Constraints.AllowList != nil {
		items = append(items, ast.Item(keyAllow, stringTerms(p.Constraints.AllowList)))
	}
	if p.Constraints.Patterns != nil {
		items = append(items, ast.Item(keyPatterns, stringTerms(p.Constraints.Patterns)))
	}
	return ast.StringTerm(p.Value), ast.ObjectTerm(items...)
}

func stringTerms(list []string) *ast.Term {
	terms := make([]*ast.Term, len(list))
	for i, s := range list {
		terms[i] = ast.StringTerm(s)
	}
	return ast.ArrayTerm(terms...)
}
