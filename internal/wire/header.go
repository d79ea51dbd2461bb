package wire

import (
	"strconv"
	"strings"

	"github.com/edictdev/edict/policy"
)

// Headers of messages on NATS; EventID and LogSeq are headers over HTTP, too.
const (
	HeaderMsgID       = "Nats-Msg-Id"
	HeaderEdictID     = "Edict-Id"       // of a message for a node: <node>.<event id>
	HeaderEventID     = "Edict-Event-Id" // policy.EventID of what a node is sent, or up to where an answer is whole
	HeaderPrev        = "Edict-Prev"     // the event id before it for the node
	HeaderType        = "Edict-Type"     // one of the types of events for nodes
	HeaderLogSeq      = "Edict-Log-Seq"
	HeaderLog         = "Edict-Log" // the log's creation time in unix nanoseconds
	HeaderTraceparent = "traceparent"
	HeaderPrincipal   = "Edict-Principal"      // who caused an event by way of the API
	HeaderCorrelation = "Edict-Correlation-Id" // which request of its author it belongs to
	HeaderRequest     = "Edict-Request"        // SHA-256 of what the author of a keyed write sent
)

// Headers of an answer to a replay request; HeaderError is also one of an answer
// without a verdict.
const (
	HeaderUpTo   = "Edict-Up-To"  // the event id up to which the answer is whole: its last message
	HeaderResync = "Edict-Resync" // what was missed is not known: pull
	HeaderError  = "Edict-Error"  // why there is no answer: ReplayBehind, ReplayUnknown, or what is wrong with the request
	HeaderEvent  = "Edict-Event"  // policy.TypeKeyRotated: the body is a notice, as over SSE
)

// Why a replay request has no answer.
const (
	ReplayBehind  = "behind"         // the worker's fold is: ask again
	ReplayUnknown = "node_not_found" // no project has a node of this id
)

// Headers of CloudEvents 1.0 in its NATS binding, binary mode.
const (
	HeaderCEID          = "ce-id"
	HeaderCEType        = "ce-type"
	HeaderCESource      = "ce-source"
	HeaderCESpecVersion = "ce-specversion" // CESpecVersion
	HeaderCETime        = "ce-time"
	HeaderDataSchema    = "ce-dataschema" // DataSchema of the event; a larger number is newer

	CESpecVersion = "1.0"
)

// PrefixSchema begins the names of data schemas; the number follows. Events were
// written with PrefixSchemaOld once, and mean the same.
const (
	PrefixSchema    = "urn:edict:schema:v"
	PrefixSchemaOld = "edict/v"
)

// DataSchema names the data schema that an event is written under, as an absolute
// URI.
func DataSchema(e policy.Event) string { return PrefixSchema + numberOf(e) }

// IsDataSchema reports whether schema is the one that e is written under, in either
// form.
func IsDataSchema(schema string, e policy.Event) bool {
	n, ok := SchemaNumber(schema)
	return ok && n == numberOf(e)
}

// SchemaNumber is what follows the prefix in the name of a data schema of ours, as
// it is written.
func SchemaNumber(schema string) (n string, ok bool) {
	if n, ok = strings.CutPrefix(schema, PrefixSchema); !ok {
		n, ok = strings.CutPrefix(schema, PrefixSchemaOld)
	}
	return n, ok
}

func numberOf(e policy.Event) string { return strconv.Itoa(policy.KindOf(e).Schema(e)) }
