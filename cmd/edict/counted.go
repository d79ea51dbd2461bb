package main

import "github.com/edictdev/edict/cmd/internal/cli"

// counted is so many of a thing, as people say it.
func counted[N int | int64 | uint64](n N, thing string) string { return cli.Counted(n, thing) }
