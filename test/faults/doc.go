// Package faults holds the plane to its promises while it is being broken: its
// parts run in this process on a real server, nodes follow over SSE and NATS,
// and package check judges what they met. docs/faults.md says what is injected
// and how a seed is repeated.
package faults
