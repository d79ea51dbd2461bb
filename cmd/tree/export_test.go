package tree

// KeepSpareFrom has the old tree kept beside the new one from that many nodes on.
func (p *Plan) KeepSpareFrom(nodes int) { p.spareFrom = nodes }
