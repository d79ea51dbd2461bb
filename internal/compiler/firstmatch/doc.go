// Package firstmatch makes of a node's ordered list one list of plain rules in
// which the first rule that matches decides, as agents of the node contract apply
// rules: every pass is worked out into what it leads to, and the default of each
// direction stands at the end (docs/datapath.md#agents-of-the-node-contract).
//
// What plain rules cannot say is denied, and counted.
package firstmatch
