package datapath

// Answers are what a table answers for an identity. They are equal for two
// identities of one table that it answers alike, and where they are not equal, rules
// for other peers hold.
type Answers struct{ of *part }

// Answers are those for an identity; for one that the table does not know, those for
// any.
func (t *Table) Answers(id ID) Answers {
	if id == AnyIdentity || int(id) > len(t.ids) {
		return Answers{nobody}
	}
	return Answers{t.ids[id-1].part}
}
