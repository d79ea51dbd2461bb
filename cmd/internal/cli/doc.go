// Package cli is what the command lines of the programs share: exit codes, errors
// that carry one, and checks of what was typed.
package cli
