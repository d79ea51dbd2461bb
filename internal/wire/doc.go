// Package wire has the names of what crosses the wire between the plane, its
// producers and its nodes: subjects, headers, types of events for nodes, and the
// payload of those that are not signed in a form of their own (package artifact
// has these). It has no I/O.
package wire
