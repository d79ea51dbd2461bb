package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// producerCommand makes this binary a producer that keeps the fold busy, in a process of
// its own: who measures how long something takes must not wait for it.
const producerCommand = "busy-producer"

// startProducer starts one. It publishes until it is stopped.
func startProducer(ctx context.Context, e *env, url string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(e.dir, "producer.ready")
	if err := os.RemoveAll(file); err != nil {
		return nil, err
	}
	return start(ctx, e.dir, "producer", file, self, producerCommand, file, url)
}

// busyProject is of nodes that no policy is about.
var busyProject = uuid.MustParse("00000000-0000-4000-8000-000000000001")

// keepBusy publishes node events as fast as they are taken.
func keepBusy(readyFile, url string) error {
	ctx := context.Background()
	conn, err := streams.Connect(ctx, streams.ConnectOptions{URL: url, Name: "bench"})
	if err != nil {
		return err
	}
	defer conn.Close()
	log, err := streams.OpenLog(ctx, conn, streams.LogOptions{})
	if err != nil {
		return err
	}
	if err := os.WriteFile(readyFile, []byte("{}"), 0o600); err != nil {
		return err
	}
	const chunk, nodes = 500, 10_000
	for n := 0; ; {
		list := make([]streams.Append, chunk)
		for i := range list {
			n++
			list[i] = streams.Append{Bulk: true, Event: policy.NodeUpdated{
				ID: uuid.New(), Project: busyProject, Node: policy.NodeID(fmt.Sprintf("busy-%05d", n%nodes)),
				Labels: labelled("env", fmt.Sprintf("e%d", n%7), "turn", fmt.Sprintf("t%d", n/nodes%5)),
			}}
		}
		if _, err := log.PublishAll(ctx, list); err != nil {
			return err
		}
	}
}
