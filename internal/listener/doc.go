// Package listener is where a plane is reached: the addresses that it listens
// on, the certificate that they show, and whose credentials they take.
//
// Who may do what is decided by package access, over the read model; what is
// served by package api and, for NATS clients, by the embedded server.
package listener
