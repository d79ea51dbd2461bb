package plane

// Connections are bounded by shares of the files that the process may have open, so that the store and
// the log can open theirs: 0 is without bound.

// apiConnections are those to the API.
func apiConnections() int { return openFiles() / 8 * 5 }

// natsConnections are those to the embedded NATS server.
func natsConnections() int { return openFiles() / 8 }

// adminConnections are those of operators, to --admin.
func adminConnections() int { return openFiles() / 16 }
