// Package rete turns a repository of YAML files, which says who may reach what
// in a rete, into what each of its nodes must hold: one payload for the node's
// agent and one for each of its vertices.
//
// Load finds and merges the files, Validate holds the merged view against the
// rules of the specification, Compile derives the payloads. Each reports every
// fault it finds, with rule and place. All are functions of the files they are
// given: they read through fs.FS, and neither the time nor the order of a map
// reaches a payload. Signing, versions and writing are the business of callers.
package rete
