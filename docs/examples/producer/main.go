// Command producer shows how a program appends events to Edict's log with
// nothing but a NATS client: it publishes a policy and a node, and says where
// in the log they stand. See docs/producers.md.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func main() {
	url := flag.String("nats", nats.DefaultURL, "the plane's NATS address")
	project := flag.String("project", "00000000-0000-4000-8000-000000000000", "the project to write to")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := run(ctx, *url, *project, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "producer:", err)
		os.Exit(1)
	}
}

// object is a JSON object. Your program will have types of its own.
type object = map[string]any

func run(ctx context.Context, url, project string, out io.Writer) error {
	nc, err := nats.Connect(url, nats.Name("producer example"))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}

	policy := newID()
	err = publish(ctx, js, out, "edict.log."+project+".policy."+policy, object{
		"id": newID(), "type": "policy_revision_created", "project_id": project, "policy_id": policy,
		"slug": "example-db", "display_name": "Example: applications reach their database",
		"revision": object{
			"id": newID(), "parent_id": nil, // nil: the policy's first revision
			"selector": object{"source": "role=app", "destination": "role=db"},
			"rules": []object{{
				"action": "allow", "protocol": "tcp", "source_cidr": "10.20.0.0/16", "destination_cidr": "10.30.0.0/24",
				"ports": object{"from": 5432, "to": 5432},
			}},
			"created_at": time.Now().UTC().Format(time.RFC3339), "created_by": "producer example", "correlation_id": nil,
		},
	})
	if err != nil {
		return err
	}
	return publish(ctx, js, out, "edict.log."+project+".node.example-db-1", object{
		"id": newID(), "type": "node_updated", "project_id": project, "node_id": "example-db-1",
		"labels": object{"role": "db"}, "addresses": []string{"10.30.0.1"},
	})
}

// publish appends one event and waits until it is durable. When the
// acknowledgement does not come, publish the same event again, with its id: the
// server drops a repeat within two minutes, and the fold drops it for ever. A
// duplicate is an event of this id, not surely this one: ids are one namespace
// for all who append. Without the header it is stored whoever has the id.
func publish(ctx context.Context, js jetstream.JetStream, out io.Writer, subject string, event object) error {
	body, err := json.Marshal(event)
	if err != nil {
		return err
	}
	id, kind := event["id"].(string), event["type"].(string)
	msg := nats.NewMsg(subject)
	msg.Data = body
	for name, value := range map[string]string{
		"Nats-Msg-Id": id, // one event, one id: repeats are dropped

		"ce-specversion": "1.0", "ce-id": id, "ce-type": kind, "ce-source": "/producers/example",
		"ce-time": time.Now().UTC().Format(time.RFC3339Nano), "ce-dataschema": "edict/v1",
	} {
		msg.Header[name] = []string{value} // as written: CloudEvents names are lower case
	}
	ack, err := js.PublishMsg(ctx, msg)
	if err == nil && ack.Duplicate {
		delete(msg.Header, "Nats-Msg-Id")
		ack, err = js.PublishMsg(ctx, msg)
	}
	if err != nil {
		return fmt.Errorf("publish %s: %w", kind, err)
	}
	fmt.Fprintf(out, "%s is event %d of %s\n", kind, ack.Sequence, ack.Stream)
	return nil
}

// newID is a UUID of version 7: it sorts by time of making.
func newID() string { return uuid.Must(uuid.NewV7()).String() }
