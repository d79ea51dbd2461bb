// Command producer shows how a program appends events to Edict's log with
// nothing but a NATS client: it publishes a policy and a node, and says where
// in the log they stand and what became of them. It exits 1 when one is rejected.
// See docs/producers.md.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func main() {
	url := flag.String("nats", nats.DefaultURL, "the plane's NATS address")
	project := flag.String("project", "00000000-0000-4000-8000-000000000000", "the project to write to")
	var who access
	flag.StringVar(&who.principal, "principal", "", "who this is; where access is configured")
	flag.StringVar(&who.token, "token-file", "", "file with a token of the principal; for the embedded server")
	flag.StringVar(&who.creds, "creds", "", "file of the principal's credentials; for other NATS servers")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := run(ctx, *url, *project, who, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "producer:", err)
		os.Exit(1)
	}
}

// access is how a producer proves who it is.
type access struct{ principal, token, creds string }

func (a access) options() ([]nats.Option, error) {
	opts := []nats.Option{nats.Name("producer example")}
	if a.principal != "" { // it hears answers nowhere else
		opts = append(opts, nats.CustomInboxPrefix("_INBOX."+a.principal))
	}
	if a.token != "" {
		text, err := os.ReadFile(a.token)
		if err != nil {
			return nil, err
		}
		opts = append(opts, nats.Token(strings.TrimSpace(string(text))))
	}
	if a.creds != "" {
		opts = append(opts, nats.UserCredentials(a.creds))
	}
	return opts, nil
}

// object is a JSON object. Your program will have types of its own.
type object = map[string]any

func run(ctx context.Context, url, project string, who access, out io.Writer) error {
	opts, err := who.options()
	if err != nil {
		return err
	}
	nc, err := nats.Connect(url, opts...)
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

// publish appends one event, waits until it is durable, and says what became of it.
// When the acknowledgement does not come, publish the same event again, with its
// id: the server drops a repeat within two minutes, and the fold drops it for ever.
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
		"ce-time": time.Now().UTC().Format(time.RFC3339Nano), "ce-dataschema": "urn:edict:schema:v1",
	} {
		msg.Header[name] = []string{value} // as written: CloudEvents names are lower case
	}
	seq, v, err := appendAndLearn(ctx, js, msg)
	if err == nil && v.Code == "duplicate_id" && v.EventID != id {
		// Ids are one namespace for all who append, and somebody else has used this
		// one. Without the header the event is stored in any case.
		delete(msg.Header, "Nats-Msg-Id")
		seq, v, err = appendAndLearn(ctx, js, msg)
	}
	if err != nil {
		return fmt.Errorf("publish %s: %w", kind, err)
	}
	if v.Verdict == "rejected" {
		return fmt.Errorf("%s, event %d, is rejected: %s: %s", kind, seq, v.Code, v.Detail)
	}
	fmt.Fprintf(out, "%s is event %d: %s\n", kind, seq, v.Verdict)
	return nil
}

// verdict is what became of an event: applied, duplicate, accepted (one of the two,
// long ago) or rejected. Empty: it is not known yet.
type verdict struct {
	Verdict string `json:"verdict"`
	Code    string `json:"code"`
	Detail  string `json:"detail"`
	EventID string `json:"event_id"`
}

// answerPatience is how long an answer is waited for. A worker takes 4 seconds at most; one
// that is paused or ends has the question, and answers nothing.
var answerPatience = 5 * time.Second

// appendAndLearn returns where the event stands, and the verdict on it. The digest
// says which event is meant: what has its Nats-Msg-Id may be another.
func appendAndLearn(ctx context.Context, js jetstream.JetStream, msg *nats.Msg) (seq uint64, v verdict, err error) {
	ack, err := js.PublishMsg(ctx, msg)
	if err != nil {
		return 0, v, err
	}
	sum := sha256.Sum256(msg.Data)
	question, err := json.Marshal(object{"sha256": hex.EncodeToString(sum[:])})
	if err != nil {
		return 0, v, err
	}
	project := strings.Split(msg.Subject, ".")[2] // edict.log.<project>…
	subject := fmt.Sprintf("edict.verdict.%s.%d", project, ack.Sequence)
	for {
		try, cancel := context.WithTimeout(ctx, answerPatience)
		answer, err := js.Conn().RequestWithContext(try, subject, question)
		cancel()
		if v = (verdict{}); err == nil { // what an earlier answer said is over
			err = json.Unmarshal(answer.Data, &v)
		}
		switch {
		case errors.Is(err, nats.ErrNoResponders), errors.Is(err, context.DeadlineExceeded), err == nil && (v.Code == "behind" || v.Code == "busy"):
			// No worker is there yet, the one that was asked is gone, or none has come so far: ask again.
		case err == nil && v.Verdict == "":
			return 0, v, fmt.Errorf("%s: %s", v.Code, v.Detail)
		default:
			return ack.Sequence, v, err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return 0, v, ctx.Err()
		}
	}
}

// newID is a UUID of version 7: it sorts by time of making.
func newID() string { return uuid.Must(uuid.NewV7()).String() }
