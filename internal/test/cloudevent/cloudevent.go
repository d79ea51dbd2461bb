// Package cloudevent reads messages as CloudEvents, for tests that have CloudEvents'
// own SDK judge them.
package cloudevent

import (
	"fmt"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/edictdev/edict/internal/wire"
)

// Of reads a message in the binary mode of the binding for NATS, and has the SDK
// validate it.
func Of(header map[string][]string, body []byte) (event.Event, error) {
	get := func(name string) string {
		if v := header[name]; len(v) > 0 {
			return v[0]
		}
		return ""
	}
	e := event.New(get(wire.HeaderCESpecVersion))
	e.SetID(get(wire.HeaderCEID))
	e.SetType(get(wire.HeaderCEType))
	e.SetSource(get(wire.HeaderCESource))
	e.SetDataSchema(get(wire.HeaderDataSchema))
	at, err := time.Parse(time.RFC3339Nano, get(wire.HeaderCETime))
	if err != nil {
		return e, fmt.Errorf("%s: %w", wire.HeaderCETime, err)
	}
	e.SetTime(at)
	e.DataEncoded = body
	return e, e.Validate()
}
