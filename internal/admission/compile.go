package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
)

// MaxRegoBytes is the largest Rego code of a policy.
const MaxRegoBytes = 64 << 10

// compileTimeout bounds one compilation. A policy of a thousand rules takes
// some 50 ms; only code made to be slow comes near.
const compileTimeout = 5 * time.Second

// Compiled is a policy that can be evaluated: ready, or, where a [Registry] keeps it, made
// ready when a request needs it. Safe for concurrent use.
type Compiled struct {
	policy Policy
	code   *code
	// runaway counts evaluations that did not end when they were cancelled.
	runaway atomic.Int32
	breaker breaker
	slow    chan struct{} // its place in the slow lane
}

func newCompiled(p Policy, c *code) *Compiled {
	if p.Mode == "" {
		p.Mode = Enforce
	}
	return &Compiled{policy: p, code: c, slow: make(chan struct{}, 1)}
}

// CompileTime is how long compiling took; zero until it is done.
func (c *Compiled) CompileTime() time.Duration {
	if j := c.code.judged.Load(); j != nil {
		return j.took
	}
	return 0
}

// Compile compiles a policy by itself, with the built-in functions that an
// untrusted policy may have. The error is a [*CompileError] when the Rego is at
// fault, and one from [Policy.Validate] when another field is.
func Compile(ctx context.Context, p Policy) (*Compiled, error) {
	return compileThen(ctx, p, func() {})
}

// compileThen is Compile, and calls done when the compiler is at its end: perhaps later
// than it returns.
func compileThen(ctx context.Context, p Policy, done func()) (*Compiled, error) {
	if err := p.Validate(); err != nil {
		done()
		return nil, err
	}
	made, j, err := compileCode(ctx, p.Rego, done)
	if err != nil {
		return nil, err
	}
	return newCompiled(p, ownCode(p, made, j)), nil
}

// ownCode is code whose program stays.
func ownCode(p Policy, made *program, j *judgement) *code {
	c := &code{text: p.Rego, scope: p.scope(), program: made}
	c.judged.Store(j)
	return c
}

// compileCode compiles within the bounds of a policy, and calls done when the compiler is
// at its end: perhaps later than it returns.
func compileCode(ctx context.Context, rego string, done func()) (*program, *judgement, error) {
	if len(rego) > MaxRegoBytes {
		done()
		return nil, nil, oneFault(CodeTooLarge, nil, "the code has %d bytes, a policy at most %d", len(rego), MaxRegoBytes)
	}
	type outcome struct {
		program *program
		judged  *judgement
		err     error
	}
	// The compiler cannot be interrupted; what takes too long is left behind.
	compiled := make(chan outcome, 1)
	go func() {
		defer done()
		defer func() {
			if r := recover(); r != nil {
				compiled <- outcome{nil, nil, oneFault(ast.CompileErr, nil, "the compiler failed: %v", r)}
			}
		}()
		p, j, err := compileFile("", rego)
		compiled <- outcome{p, j, err}
	}()
	timer := time.NewTimer(compileTimeout)
	defer timer.Stop()
	select {
	case o := <-compiled:
		return o.program, o.judged, o.err
	case <-timer.C:
		return nil, nil, oneFault(CodeTimeout, nil, "compiling takes longer than %v", compileTimeout)
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}

// compileFile compiles code in a file of that name, which coverage needs.
func compileFile(file, rego string) (*program, *judgement, error) {
	began := time.Now()
	if row, col := deepest(rego, maxNesting); row > 0 {
		return nil, nil, oneFault(CodeTooLarge, &ast.Location{Row: row, Col: col}, "brackets stand more than %d deep", maxNesting)
	}
	module, err := ast.ParseModuleWithOpts(file, rego, ast.ParserOptions{Capabilities: capabilities(), RegoVersion: ast.RegoV1})
	if err != nil {
		return nil, nil, compileError(err)
	}
	if n := len(module.Package.Path) - 1; n > maxPackage { // each reference to a rule repeats it
		return nil, nil, oneFault(CodeTooLarge, module.Package.Location, "the package has a name of %d parts, more than %d", n, maxPackage)
	}
	if fault := entangled(module); fault != nil {
		return nil, nil, fault
	}
	faults := staysAtHome(module)
	compiler := compileModule(module, capabilitiesOf(module))
	if compiler.Failed() {
		faults = append(faults, compileFaults(compiler.Errors)...)
	}
	if len(faults) > 0 {
		return nil, nil, newCompileError(faults)
	}
	p, j := &program{compiler: compiler}, &judgement{dialect: dialectOf(module.Package)}
	j.unmeetable = unmeetable(module, j.dialect)
	if j.dialect.isDeclared(module) {
		entry := module.Package.Path.Append(ast.StringTerm(j.dialect.entry))
		p.queries = compiler.QueryCompiler()
		if p.query, err = p.queries.Compile(ast.NewBody(ast.Equality.Expr(decisionVar, ast.NewTerm(entry)))); err != nil {
			return nil, nil, compileError(err)
		}
	} else {
		j.neverAsked = neverAsked(module, j.dialect)
	}
	j.took = time.Since(began)
	return p, j, nil
}

func compileModule(module *ast.Module, c *ast.Capabilities) *ast.Compiler {
	const allErrors = 0
	compiler := boundTypes(ast.NewCompiler().WithCapabilities(c).SetErrorLimit(allErrors))
	compiler.Compile(map[string]*ast.Module{"policy": module})
	return compiler
}

var decisionVar = ast.VarTerm("decision")

// staysAtHome refuses references to data that is not of the policy's package.
// There is no such data, and code that asks for it expects what it will not get.
func staysAtHome(module *ast.Module) (faults []Fault) {
	home := module.Package.Path
	check := func(ref ast.Ref) {
		if ref[0].Equal(ast.DefaultRootDocument) && !ref.HasPrefix(home) {
			faults = append(faults, faultAt(CodeForbidden, ref[0].Location, "%v is outside the policy's own %v; a policy sees input and its own rules", ref, home))
		}
	}
	visit := func(x any) {
		ast.WalkRefs(x, func(ref ast.Ref) bool {
			check(ref)
			return false
		})
		// data alone is a variable until the compiler resolves it.
		ast.WalkTerms(x, func(t *ast.Term) bool {
			if t.Equal(ast.DefaultRootDocument) {
				faults = append(faults, faultAt(CodeForbidden, t.Location, "data is outside the policy's own %v; a policy sees input and its own rules", home))
			}
			_, isRef := t.Value.(ast.Ref)
			return isRef // its head is seen to above
		})
	}
	for _, i := range module.Imports {
		visit(i.Path)
	}
	for _, r := range module.Rules {
		visit(r)
	}
	return faults
}

// maxPackage is how many parts the name of a package may have.
const maxPackage = 100

// maxNesting is how deep brackets may stand in Rego code: the compiler is
// recursive in many places.
const maxNesting = 200

// deepest returns where brackets nest deeper than limit, or zeros. Brackets in
// strings and comments count as well: nobody needs that many.
func deepest(code string, limit int) (row, col int) {
	depth, row, start := 0, 1, 0
	for i := range len(code) {
		switch code[i] {
		case '\n':
			row, start = row+1, i+1
		case '(', '[', '{':
			if depth++; depth > limit {
				return row, i - start + 1
			}
		case ')', ']', '}':
			depth = max(depth-1, 0)
		}
	}
	return 0, 0
}

func oneFault(code string, at *ast.Location, format string, args ...any) *CompileError {
	return &CompileError{[]Fault{faultAt(code, at, format, args...)}}
}

func faultAt(code string, at *ast.Location, format string, args ...any) Fault {
	f := Fault{Code: code, Message: fmt.Sprintf(format, args...)}
	if at != nil {
		f.Row, f.Col = at.Row, at.Col
	}
	return f
}

// compileError lists the faults that the parser or the compiler found.
func compileError(err error) error {
	var list ast.Errors
	var one *ast.Error
	switch {
	case errors.As(err, &list):
	case errors.As(err, &one):
		list = ast.Errors{one}
	default:
		return oneFault(ast.CompileErr, nil, "%v", err)
	}
	return newCompileError(compileFaults(list))
}

func compileFaults(list ast.Errors) []Fault {
	faults := make([]Fault, 0, len(list))
	left := maxTypeShown
	for _, e := range list {
		message := strings.Join(append([]string{e.Message}, detailsOf(e, &left)...), "; ")
		faults = append(faults, faultAt(e.Code, e.Location, "%s", message))
	}
	return faults
}

func newCompileError(faults []Fault) *CompileError {
	slices.SortStableFunc(faults, func(a, b Fault) int {
		if a.Row != b.Row {
			return a.Row - b.Row
		}
		return a.Col - b.Col
	})
	return &CompileError{slices.Compact(faults)}
}
