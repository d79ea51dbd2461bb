package admission

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"
	"weak"
)

// programs keeps those that were asked last, within a bound on their bytes. Those of
// policies that nobody asks would cost every request: the garbage collector walks through
// all of them again and again.
type programs struct {
	lane    *drafting // in which programs are made that are missing
	compile compiling
	clock   func() time.Time
	made    func(took time.Duration)
	max     int // bytes
	mu      sync.Mutex
	bytes   int
	order   *list.List // of *keptProgram, last asked in front
	at      map[*code]*list.Element
}

// compiling is what compileCode is.
type compiling func(ctx context.Context, rego string, done func()) (*program, *judgement, error)

type keptProgram struct {
	code    *code
	program *program
}

// flight is a program being made, once for all who wait for it.
type flight struct {
	done    chan struct{}
	kept    bool // somebody evaluates it; of the mu of programs
	program *program
	err     error
	until   time.Time // of one that ran out of time
}

// slowAgain is how long nobody tries to make a program again that took too long to make.
const slowAgain = 10 * time.Second

// programBytes are about what is kept of all programs: some fifteen thousand policies of
// one rule. Up to there each is compiled once, when it is asked first; to let go of one
// that is asked again costs more than the collector does.
const programBytes = 512 << 20

func newPrograms(max int, made func(time.Duration)) *programs {
	return &programs{lane: newDrafting(), compile: compileCode, clock: time.Now, made: made, max: max, order: list.New(), at: map[*code]*list.Element{}}
}

// size is about what the program of a code takes, as measured: a compiler, and what it
// makes of each byte.
func (c *code) size() int { return 26<<10 + 50*len(c.text) }

// unread is a policy whose code is compiled when it is asked first.
func (s *programs) unread(p Policy) *Compiled {
	if err := p.Validate(); err != nil {
		return Broken(p, why(err))
	}
	return newCompiled(p, &code{text: p.Rego, scope: p.scope(), programs: s})
}

// take is what was compiled, with its program kept. Nobody else has it yet.
func (s *programs) take(c *Compiled) {
	p := c.code.program
	c.code.program, c.code.programs = nil, s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.use(c.code, p)
}

// get is the program of a code, made if it is missing, and kept. What is made is of use
// to others: it is made to the end, whoever stops waiting.
func (s *programs) get(ctx context.Context, stop <-chan struct{}, c *code) (*program, error) {
	s.mu.Lock()
	if p := c.now(); p != nil {
		s.use(c, p)
		s.mu.Unlock()
		return p, nil
	}
	f := s.begin(c)
	f.kept = true
	s.mu.Unlock()
	return f.wait(ctx, stop)
}

// judge makes a program to see what it is like, and keeps none: who reads a list of
// policies asks none of them.
func (s *programs) judge(ctx context.Context, c *code) {
	s.mu.Lock()
	if c.judged.Load() != nil {
		s.mu.Unlock()
		return
	}
	f := s.begin(c)
	s.mu.Unlock()
	_, _ = f.wait(ctx, nil) // what is wrong with the code is in its judgement
}

// begin joins the flight, or starts it. The caller has mu.
func (s *programs) begin(c *code) *flight {
	if c.slow != nil && s.clock().Before(c.slow.until) {
		return c.slow
	}
	if c.flight == nil {
		c.flight = &flight{done: make(chan struct{})}
		go s.fly(c.flight, c)
	}
	return c.flight
}

func (f *flight) wait(ctx context.Context, stop <-chan struct{}) (*program, error) {
	select {
	case <-f.done:
		return f.program, f.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-stop:
		return nil, errChainTime
	}
}

// fly makes the program that is missing, in a lane: it takes no place from those who
// evaluate, and one owner's codes leave room for another's.
func (s *programs) fly(f *flight, c *code) {
	defer close(f.done)
	ctx := context.Background()
	var j *judgement
	done, err := s.lane.begin(ctx, c.scope)
	if err == nil {
		f.program, j, err = s.compile(ctx, c.text, done)
	}
	f.err = err
	if err == nil && s.made != nil {
		s.made(j.took)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.flight, c.slow = nil, nil
	var faults *CompileError
	switch {
	case err == nil:
		c.judged.Store(j)
		if f.kept {
			s.use(c, f.program)
		}
	case errors.As(err, &faults) && faults.Faults[0].Code == CodeTimeout:
		// The code was compiled when it was written: the machine has no time for it now.
		f.until, c.slow = s.clock().Add(slowAgain), f
	case c.judged.Load() == nil && errors.As(err, &faults):
		// Once it compiled it does so always; what failed later was the machine.
		c.judged.Store(&judgement{dialect: specified, broken: faults})
	}
}

// use puts a program in front, and lets go of those that were not asked for longest. One
// that is larger than the bound stays until the next comes.
func (s *programs) use(c *code, p *program) {
	if el := s.at[c]; el != nil {
		s.order.MoveToFront(el)
		return
	}
	if w := c.last.Load(); w == nil || w.Value() != p {
		w := weak.Make(p)
		c.last.Store(&w)
	}
	s.at[c] = s.order.PushFront(&keptProgram{c, p})
	s.bytes += c.size()
	for s.bytes > s.max && s.order.Len() > 1 {
		last := s.order.Remove(s.order.Back()).(*keptProgram)
		delete(s.at, last.code)
		s.bytes -= last.code.size()
	}
}
