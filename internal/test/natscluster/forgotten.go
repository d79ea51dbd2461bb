package natscluster

import "go.uber.org/goleak"

// Forgotten are goroutines that are no leak of ours: a server that is told to stop while it
// opens a store forgets that store. Two of its own stay, and nobody else can end them. So
// does, at times, the loop of one of its blocks.
func Forgotten() []goleak.Option {
	const server = "github.com/nats-io/nats-server/v2/server"
	return []goleak.Option{
		goleak.IgnoreAnyFunction(server + ".(*fileStore).flushStreamStateLoop"),
		goleak.IgnoreAnyFunction(server + ".(*msgBlock).flushLoop"),
		goleak.IgnoreAnyFunction(server + "/ats.Register.func1"),
	}
}
