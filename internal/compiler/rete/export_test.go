package rete

// ListKey is for tests of names that hold what separates names.
var ListKey = listKey

// CompileSpoiling is Compile of a compiler that errs in vertex payloads, for tests of what is
// refused before it is signed.
func CompileSpoiling(m *Model, spoil func(p *VertexPayload)) ([]NodeSet, []Fault) {
	return compile(m, nil, spoil)
}
