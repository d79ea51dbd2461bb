// Package streams keeps Edict's facts on JetStream: the log (EDICT_LOG), its
// witness (EDICT_CHAIN) and the rejected events (EDICT_REJECTED), on an embedded
// server or an external one with the same code. It publishes the messages for nodes,
// of which nothing is stored here, and knows who listens.
//
// What a caller may rely on: a sequence that Publish returned is stored as
// durably as the server stores anything; a batch is stored whole or not at
// all; Follow yields every message of the log once, in order, over restarts of
// the server, and says so when the log it reads is not the one it began with.
// An outcome that nobody can know is reported as ErrUnknown, never guessed.
//
// What an event means is the fold's business, and what nodes are sent is the
// relay's. No type of a NATS client leaves this package.
package streams
