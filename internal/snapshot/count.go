package snapshot

// What becomes of tables that somebody asks for and that are not in memory, as
// metrics name it.
const (
	TableComputed  = "computed"
	TableShared    = "shared"    // a request that waited for what another had begun
	TableRefused   = "refused"   // too large, or too much work
	TableCancelled = "cancelled" // nobody waited for it any more, or the server stopped
	TableFailed    = "failed"    // the read model could not be read
	TableTooMany   = "too_many"  // a request that was sent away
)

// TableOutcomes is all of them.
var TableOutcomes = []string{TableComputed, TableShared, TableRefused, TableCancelled, TableFailed, TableTooMany}

// TableCounts are since the start.
type TableCounts struct {
	// Outcomes count each request once that found no table in memory: as shared or
	// too_many, or, of the one that had it computed, as how that ended.
	Outcomes map[string]uint64
	// Steps are those that computations took, the ones that watch tables among them.
	Steps uint64
	// Waiting requests are there now, those that compare policies among them.
	Waiting int
}

// Counts says how much work tables were.
func (t *Tables) Counts() TableCounts {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := TableCounts{Outcomes: make(map[string]uint64, len(TableOutcomes)), Steps: t.spent}
	for _, name := range TableOutcomes {
		c.Outcomes[name] = t.outcomes[name]
	}
	c.Waiting = t.rooms.all()
	return c
}
