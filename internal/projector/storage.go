package projector

// StorageStatus is how the read model's store is doing on its disk.
type StorageStatus struct {
	Bytes       uint64 // on disk, its write-ahead log included
	Unflushed   uint64 // bytes in memory that are not in a table yet
	Compactions int64  // that ended since the store was opened
	Debt        uint64 // bytes that compactions have yet to rewrite, about
	Levels      int    // tables that a read looks into at most: read amplification
}

// StorageOf is how the store is doing now. It is cheap, and waits for nobody.
func StorageOf(p *Projector) StorageStatus {
	m := p.db.Metrics()
	return StorageStatus{
		Bytes: m.DiskSpaceUsage(), Unflushed: m.MemTable.Size, Compactions: m.Compact.Count,
		Debt: m.Compact.EstimatedDebt, Levels: m.ReadAmp(),
	}
}
