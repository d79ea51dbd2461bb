// Package access says who may do what: it knows principals by their tokens,
// certificates and identities at an issuer, and decides from the relations that
// the log gives them.
//
// What a route needs is a Need, what a request is about an Object; a Decision
// follows from these and the principal's relations alone, in memory, without a
// lock. A Registry keeps that memory in step with the fold. Whatever is not
// allowed is denied, and what a principal may not see does not exist for it.
package access
