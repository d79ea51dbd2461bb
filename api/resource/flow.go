package resource

// FlowChanges is what a revision would do to flows of the nodes that the policy matches
// before or after. What is counted are kinds of flows: nodes that enforce the same are
// one, and so are peers that are answered alike and ports that no rule parts.
type FlowChanges struct {
	Nodes    NodeCount    `json:"nodes" doc:"The nodes that the policy matches, before or after."`
	Changed  NodeCount    `json:"changed" doc:"Those of them of which a flow changes."`
	Skipped  NodeCount    `json:"skipped" doc:"Those of them that were not compared: a table of theirs is refused, or takes too much work."`
	Compared uint64       `json:"compared" doc:"How many kinds of flows were compared: nodes that enforce the same are one, and so are peers that are answered alike, and ports that no rule parts."`
	Denied   uint64       `json:"denied" doc:"How many are allowed before and denied after."`
	Allowed  uint64       `json:"allowed" doc:"How many are denied before and allowed after."`
	Altered  uint64       `json:"altered" doc:"How many are allowed before and after, and are redirected, or their ends authenticated, in another way."`
	Sampled  bool         `json:"sampled" doc:"Whether there are more kinds of flows than were compared."`
	Examples []FlowChange `json:"examples" doc:"Some of the flows that change: one of each pair of deciding rules, and few of them."`
}

// NodeCount counts nodes and names the first few by id.
type NodeCount struct {
	Count   int      `json:"count" doc:"How many there are."`
	First   []string `json:"first" doc:"The first three by id."`
	AtLeast bool     `json:"at_least" doc:"Whether there may be more, which were not looked at."`
}

// FlowChange is a flow with another verdict.
type FlowChange struct {
	NodeID    string       `json:"node_id"`
	Direction string       `json:"direction"`
	Peer      string       `json:"peer" doc:"The other end: a node of the project, or an address that none owns."`
	Protocol  string       `json:"protocol" doc:"The flow's protocol."`
	Port      uint16       `json:"port,omitempty" doc:"The port at the flow's destination; absent where the protocol has none."`
	Before    FlowDecision `json:"before" doc:"What happens to it now."`
	After     FlowDecision `json:"after" doc:"What would happen to it."`
}

// FlowDecision is what happens to a flow, and which rule says so.
type FlowDecision struct {
	Verdict   string    `json:"verdict"`
	ProxyPort uint16    `json:"proxy_port,omitempty" doc:"Of a redirect: the port of the node's proxy."`
	Auth      string    `json:"auth,omitempty" doc:"Whether both ends must prove who they are; absent when not."`
	Rule      *FlowRule `json:"rule" doc:"The rule that decides; null where the default does."`
}

// FlowRule is a rule by where its author wrote it, or would.
type FlowRule struct {
	Slug  string `json:"slug,omitempty" doc:"The slug of its policy; absent where that is the one which does not exist yet."`
	Index int    `json:"index" doc:"Its index in the policy's rules, as written."`
}
