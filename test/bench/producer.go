package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/edictdev/edict/internal/streams"
	"github.com/edictdev/edict/policy"
)

// producerCommand makes this binary a producer that keeps the fold busy, in a process of
// its own: who measures how long something takes must not wait for it.
const producerCommand = "busy-producer"

// startProducer starts one. It publishes until it is stopped: so many events a second, or
// as fast as they are taken where rate is 0.
func startProducer(ctx context.Context, e *env, url string, rate float64) (*child, error) {
	return startSelf(ctx, e, "producer", producerCommand, url, fmt.Sprint(rate))
}

// busyProject is of nodes that no policy is about.
var busyProject = uuid.MustParse("00000000-0000-4000-8000-000000000001")

// keepBusy publishes node events at a rate.
func keepBusy(readyFile, url, rate string) error {
	ctx := context.Background()
	perSecond, err := strconv.ParseFloat(rate, 64)
	if err != nil {
		return err
	}
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
	began := time.Now()
	for n := 0; ; {
		if perSecond > 0 {
			time.Sleep(time.Until(began.Add(time.Duration(float64(n) / perSecond * float64(time.Second)))))
		}
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
