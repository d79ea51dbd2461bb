// Package admission is the Rego policy engine: policies at three levels that
// reject a request, patch it, constrain what later policies may do to it, and
// choose the provider that serves it.
//
// Everything here is a function of its arguments. A [Policy] is compiled on its
// own ([Compile]); compiled policies make an immutable [Snapshot]; an [Engine]
// takes a snapshot and a [Request] and runs the chain. Nothing is read from
// disk, network or a store on the way, and no policy can see, slow down or
// break another. Where policies are registered and who may do so is decided
// elsewhere.
//
// How to write policies, and every limit: docs/admission.md.
package admission
