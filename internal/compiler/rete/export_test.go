package rete

// ListKey is for tests of names that hold what separates names.
var ListKey = listKey

// CompilePrinting is Compile with another hand that prints payloads, for tests of what
// is refused before it is signed.
func CompilePrinting(m *Model, spoil func(payload []byte) []byte) ([]NodeSet, []Fault) {
	return compile(m, nil, func(payload any) []byte { return spoil(printed(payload)) })
}
