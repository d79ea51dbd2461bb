package resource

// Fact is one of the things that the digest covers: a policy, a revision, a
// node or a row.
type Fact struct {
	Kind   string            `json:"kind"`
	Key    string            `json:"key"`
	Values map[string]string `json:"values"`
}

// SyncAsked is a partition that is to be compared with the rows. That is done
// once its mode is follow under an epoch above Epoch.
type SyncAsked struct {
	Partition int    `json:"partition"`
	Epoch     uint64 `json:"epoch"`
}
