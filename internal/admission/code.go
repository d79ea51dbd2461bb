package admission

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
	"weak"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/cover"
)

// program is the code of a policy, ready to be evaluated. It is a thousand and more small
// values that the garbage collector follows one by one. It has a compiler of its own, so
// nothing that another policy declares can meet it.
type program struct {
	compiler *ast.Compiler
	query    ast.Body // nil: no entry point, so no opinion
	queries  ast.QueryCompiler
	cover    *cover.Cover // nil: nobody asks what is covered
}

// judgement is what compiling a code tells, small enough to be kept for good.
type judgement struct {
	dialect    *dialect
	neverAsked string        // why the policy has no say; empty: it has one
	unmeetable []Fault       // see Unmeetable
	took       time.Duration // to compile
	broken     *CompileError // why the code does not compile; see [Broken]
}

// code is the Rego of a policy. Its program is here for good, or among programs, which
// lets go of it and has it made again from the same text.
type code struct {
	text, scope string // scope is of its owner; see Policy.scope
	judged      atomic.Pointer[judgement]
	program     *program // nil: in programs
	programs    *programs

	// last is the program that was made last. Who evaluates it may hold it yet when
	// programs has let go of it, and then there is no second one.
	last   atomic.Pointer[weak.Pointer[program]]
	flight *flight // of the mu of programs
	slow   *flight // likewise: it ran out of time, and is not made again before slow.until
}

// known is a code that was judged, and has no program.
func known(j judgement) *code {
	c := &code{}
	c.judged.Store(&j)
	return c
}

// dialect is that of the code, the specification's until it is known.
func (c *Compiled) dialect() *dialect {
	if j := c.code.judged.Load(); j != nil && j.dialect != nil {
		return j.dialect
	}
	return specified
}

// now is the program, if it is there.
func (c *code) now() *program {
	if c.program != nil {
		return c.program
	}
	if w := c.last.Load(); w != nil {
		return w.Value()
	}
	return nil
}

// broken is why the code does not compile, as far as is known.
func (c *code) broken() *CompileError {
	if j := c.judged.Load(); j != nil {
		return j.broken
	}
	return nil
}

// ready is the program of the policy; it is made if need be, unless ctx ends or stop is
// closed before. The error is a [*PolicyError] when the code is at fault, [ErrBusy] when
// too many are compiled at once, or ctx's own.
func (c *Compiled) ready(ctx context.Context, stop <-chan struct{}) (*program, error) {
	if c.code.broken() != nil {
		return nil, c.doesNotCompile()
	}
	if c.code.programs == nil {
		return c.code.program, nil
	}
	p, err := c.code.programs.get(ctx, stop, c.code)
	if why, ok := err.(*CompileError); ok {
		if c.code.broken() != nil {
			return nil, c.doesNotCompile()
		}
		return nil, c.failed(why.Faults[0].Code, "", "cannot be compiled now: %s", why.Faults[0].Message)
	}
	return p, err
}

// judgement compiles the code if nothing is known of it yet. It is nil when that cannot
// be done now.
func (c *Compiled) judgement(ctx context.Context) *judgement {
	if c.code.judged.Load() == nil {
		c.code.programs.judge(ctx, c.code)
	}
	return c.code.judged.Load()
}

// neverAsked says why a policy without an entry point has no say.
func neverAsked(module *ast.Module, d *dialect) string {
	text := fmt.Sprintf("in %v the rule %s is asked, and the code has none: it is never asked", module.Package, d.entry)
	if d == inherited {
		text += "; the rule result is asked in a package dcm.policy.<name>"
	}
	return text
}
