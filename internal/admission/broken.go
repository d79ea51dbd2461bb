package admission

// Broken is a policy whose code does not compile, ready to fail every request
// that it matches. Producers may append what they like to the log, and a
// library that is upgraded may read old code differently: a policy that cannot
// speak has not said yes.
func Broken(p Policy, why *CompileError) *Compiled {
	return newCompiled(p, known(judgement{dialect: specified, broken: why}))
}

func (c *Compiled) doesNotCompile() error {
	f := c.code.broken().Faults[0]
	failed := c.failed(f.Code, "", "does not compile: %s", f.Message)
	failed.Row, failed.Col = f.Row, f.Col
	return failed
}
