// Package enforce puts the table of a node (docs/datapath.md) into the kernel:
// as nftables rules in a table of their own, inet edict, which real packets meet
// the way [datapath.Table.Lookup] answers.
//
// Parse reads what the plane serves. Render turns it into a [Ruleset]: chains and
// verdict maps, whose size follows the table's and never peers times rules.
// [Nftables] brings the kernel there in one transaction, changes only what
// differs, and reads back what it did. docs/enforce.md has the picture.
package enforce
