package admission

import (
	"slices"
	"strings"
	"sync"

	"github.com/open-policy-agent/opa/v1/ast"
)

// denied are built-in functions that no policy has, besides all that OPA itself
// marks as nondeterministic (the clock, randomness, the network, the runtime).
// A star stands for the rest of the name.
var denied = []string{
	"http.*", "net.lookup_ip_addr", "opa.*", "rand.*", "uuid.rfc4122", "time.now_ns",
	"providers.*", "trace", "rego.parse_module",
	// They cannot be interrupted, and a short call keeps a core for minutes.
	"bits.lsh", "strings.render_template", "graphql.*", "graph.reachable_paths", "regex.globs_match",
	"json.match_schema", "json.verify_schema",
	// Keys of any size are slow to check, and verification asks the clock.
	"io.jwt.verify_*", "io.jwt.decode_verify", "io.jwt.encode_*",
	"crypto.x509.parse_and_verify*", "crypto.x509.parse_keypair", "crypto.x509.parse_rsa_private_key", "crypto.parse_private_keys",
}

func isDenied(b *ast.Builtin) bool {
	return b.Nondeterministic || slices.ContainsFunc(denied, func(d string) bool {
		start, open := strings.CutSuffix(d, "*")
		return b.Name == d || open && strings.HasPrefix(b.Name, start)
	})
}

// capabilities are what the Rego of a policy may use.
var capabilities = sync.OnceValue(func() *ast.Capabilities {
	c := ast.CapabilitiesForThisVersion(ast.CapabilitiesRegoVersion(ast.RegoV1))
	c.Builtins = slices.DeleteFunc(c.Builtins, isDenied)
	c.AllowNet = []string{} // nil would allow every host
	return c
})

// capabilitiesOf are those of the capabilities that a module can need: the
// functions it names, and those that the compiler writes itself. A compiler
// types every function it is given, and keeps the types: for all two hundred
// that is most of its time and of its memory.
func capabilitiesOf(module *ast.Module) *ast.Capabilities {
	named := map[string]bool{}
	ast.WalkRefs(module, func(r ast.Ref) bool {
		if name, ok := r[0].Value.(ast.Var); ok && name != ast.InputRootDocument.Value && name != ast.DefaultRootDocument.Value {
			named[r.String()] = true
		}
		return false
	})
	ast.WalkVars(module, func(v ast.Var) bool {
		named[string(v)] = true
		return false
	})
	c := *capabilities()
	c.Builtins = nil
	for _, b := range capabilities().Builtins {
		if b.Infix != "" || strings.HasPrefix(b.Name, "internal.") || named[b.Name] {
			c.Builtins = append(c.Builtins, b)
		}
	}
	return &c
}
