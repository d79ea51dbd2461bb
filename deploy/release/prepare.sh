#!/bin/sh
# What packages have beside programs, in bin/release: units, man pages and completions.
set -eu
cd "$(dirname "$0")/../.."
out=bin/release
rm -rf "$out"
mkdir -p "$out/units" "$out/completions"
go build -o "$out/edict" ./cmd/edict
"$out/edict" man --to "$out/man" >/dev/null
gzip -9n "$out"/man/*
for shell in bash zsh fish; do
	"$out/edict" completion "$shell" >"$out/completions/edict.$shell"
done
# A package's programs are in /usr/bin.
for unit in edict.service edict-worker@.service edict-agent.service; do
	sed 's,=/usr/local/bin/,=/usr/bin/,' "deploy/$unit" >"$out/units/$unit"
done
rm "$out/edict"
