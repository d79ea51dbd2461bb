package policy

import "github.com/google/uuid"

// Names of the events about nodes, on the wire.
const (
	TypeNodeUpdated = "node_updated"
	TypeNodeRemoved = "node_removed"
)

// NodeUpdated states a node's present labels and addresses, whole.
type NodeUpdated struct {
	ID        uuid.UUID
	Project   uuid.UUID
	Node      NodeID
	Labels    Labels
	Addresses Addresses
}

// NodeRemoved ends a node.
type NodeRemoved struct {
	ID      uuid.UUID
	Project uuid.UUID
	Node    NodeID
}

type nodeMembers struct {
	labels    Labels
	addresses Addresses
}

var nodeUpdated = Kind{
	Type: TypeNodeUpdated, Family: ofNodes, Schema: always(schemaFirst),
	need: []string{"node_id", "labels", "addresses"},
	own: []member{
		{"labels", func(r *reader, rec *record) { rec.labels = readLabels(r) }},
		{"addresses", func(r *reader, rec *record) { rec.addresses = readAddresses(r) }},
	},
	read: func(rec *record) Event { return NodeUpdated{rec.id, rec.project, rec.node, rec.labels, rec.addresses} },
}

var nodeRemoved = Kind{
	Type: TypeNodeRemoved, Family: ofNodes, Ends: true, Schema: always(schemaFirst),
	need: []string{"node_id"},
	read: func(rec *record) Event { return NodeRemoved{rec.id, rec.project, rec.node} },
}

// EventID implements Event.
func (e NodeUpdated) EventID() uuid.UUID { return e.ID }

// EventID implements Event.
func (e NodeRemoved) EventID() uuid.UUID { return e.ID }

// EventType implements Event.
func (NodeUpdated) EventType() string { return TypeNodeUpdated }

// EventType implements Event.
func (NodeRemoved) EventType() string { return TypeNodeRemoved }

// Scope implements Event.
func (e NodeUpdated) Scope() uuid.UUID { return e.Project }

// Scope implements Event.
func (e NodeRemoved) Scope() uuid.UUID { return e.Project }

func (NodeUpdated) describe() *Kind { return &nodeUpdated }
func (NodeRemoved) describe() *Kind { return &nodeRemoved }

func (e NodeUpdated) appendKey(b []byte) []byte { return append(b, e.Node...) }
func (e NodeRemoved) appendKey(b []byte) []byte { return append(b, e.Node...) }

func (e NodeUpdated) appendMembers(b []byte) []byte {
	b = appendNode(b, e.Node)
	b = AppendLabels(append(b, `,"labels":`...), e.Labels)
	return AppendAddresses(append(b, `,"addresses":`...), e.Addresses)
}

func (e NodeRemoved) appendMembers(b []byte) []byte { return appendNode(b, e.Node) }

func appendNode(b []byte, id NodeID) []byte {
	return appendText(append(b, `,"node_id":`...), string(id))
}
