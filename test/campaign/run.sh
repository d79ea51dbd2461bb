#!/bin/sh
# The long campaign of faults in pieces of some ten minutes, each of which leaves a log and is
# not run again once it passed:
#
#   make test-faults                    goes on with the campaign in bin/campaign
#   make test-faults PIECES='kills.*'   those of its pieces alone
#   make test-faults SEED=7             begins another one, whose draws come from 7
#   make test-faults PIECES=list        lists the pieces, and which have passed
set -u
cd "$(dirname "$0")/../.."
GO=${GO:-go}
dir=${CAMPAIGN:-bin/campaign}
pieces=${PIECES:-*}
mkdir -p "$dir"
if [ -n "${SEED:-}" ] && [ "$(cat "$dir/seed" 2>/dev/null)" != "$SEED" ]; then
	rm -f "$dir"/*.log "$dir"/*.passed
	echo "$SEED" > "$dir/seed"
fi
[ -s "$dir/seed" ] || date +%s > "$dir/seed"
seed=$(cat "$dir/seed")
commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
failed=''

# piece runs one, unless it passed or is not asked for.
piece() {
	name=$1
	shift
	# shellcheck disable=SC2254 # a pattern is what PIECES is
	case $name in $pieces) ;; *) [ "$pieces" = list ] || return 0 ;; esac
	if [ "$pieces" = list ]; then
		printf '%-14s %s\n' "$name" "$(cat "$dir/$name.passed" 2>/dev/null || echo 'not yet')"
		return 0
	fi
	if [ -e "$dir/$name.passed" ]; then
		echo "$name passed before: $(cat "$dir/$name.passed")"
		return 0
	fi
	echo "$name: $*"
	begun=$(date +%s)
	if "$@" > "$dir/$name.log" 2>&1; then
		echo "commit $commit, seed $seed, $(($(date +%s) - begun)) s" > "$dir/$name.passed"
		grep -hE '^ +[a-z_]+_test\.go:[0-9]+: .*(seed|worlds|policies|flows|cuts|crashes|kill)' "$dir/$name.log" | cut -c1-240 | tail -n 6
		echo "$name passed in $(($(date +%s) - begun)) s"
	else
		failed="$failed $name"
		echo "$name FAILED: $dir/$name.log"
		grep -E -m 20 -- '--- FAIL|Error:|panic:|^FAIL' "$dir/$name.log"
	fi
}

# repeat runs a piece so often, each time with other draws.
repeat() {
	kind=$1 round=1
	while [ "$round" -le "$2" ]; do
		"$kind" "$round" "$((seed + round * 100000))"
		round=$((round + 1))
	done
}

kills() { piece "kills.$1" "$GO" test -v ./test -run 'TestNothingAcknowledgedIsLost$' -kills 200 -crash.authors 3 -crash.seed "$2" -timeout 30m; }
workers() { piece "workers.$1" "$GO" test -v ./test -run 'TestNothingAcknowledgedIsLostOnACluster' -cluster.kills 60 -crash.authors 3 -crash.seed "$2" -timeout 30m; }
cluster() { piece "cluster.$1" "$GO" test -v ./test -run 'TestNATSServersThat' -server.faults 60 -trouble.long -crash.seed "$2" -timeout 40m; }
clocks() { piece "clocks.$1" stepped "$2"; }
# Clocks can be stepped in what is built for it: the test, whose binary the NATS servers are, and the workers.
stepped() {
	"$GO" run ./test/clock "$dir/clock" && overlay=$(cd "$dir/clock" && pwd)/overlay.json &&
		"$GO" test -overlay "$overlay" -v ./test -run 'TestNATSServersThat' -clock.overlay "$overlay" -server.faults 54 -trouble.long -crash.seed "$1" -timeout 60m
}
power() { piece "power.$1" "$GO" test -v ./internal/projector -run 'TestACrashLeaves|TestAnyWriteMay' -crash.seeds 2000 -crash.first "$2" -fail.every 1 -timeout 30m; }
packets() { piece "packets.$1" "$GO" test -v ./internal/enforce -run 'TestRealPackets' -enforce.policies 1000 -enforce.first "$2" -timeout 30m; }

[ "$pieces" = list ] || echo "seed $seed, commit $commit, logs in $dir"
# The packages that make test runs without the race detector: most of their time passes in other processes, or in one goroutine.
# shellcheck disable=SC2086 # several
piece race "$GO" run ./test/noted env CGO_ENABLED=1 "$GO" test -json -race ${DRIVERS:?is in the Makefile: run make test-faults} -timeout 60m
# These run with it in make test, where most of their worlds are left to the run without it.
# shellcheck disable=SC2086 # several
piece race-worlds "$GO" run ./test/noted env EDICT_RACE_WHOLE=1 CGO_ENABLED=1 "$GO" test -json -race ${WORLDS:?is in the Makefile: run make test-faults} -timeout 60m
piece properties "$GO" run ./test/noted env RAPID_CHECKS=1000 "$GO" test -json ./policy ./internal/compiler/... ./internal/projector ./internal/snapshot ./artifact ./internal/relay ./node -timeout 30m
piece stream-bytes "$GO" test -v ./node -run 'TestACutAtAnyByte' -node.cuts 1 -timeout 30m
piece said "$GO" test -v ./internal/relay -run 'TestWhoeverSaysIt' -derived.worlds 100 -timeout 30m
piece archives "$GO" test -v ./internal/archive -run 'TestAnImportedLogIs' -archive.worlds 40 -timeout 30m
piece mutants "$GO" test -tags faults -v ./test/faults -run 'Mutant' -mutant.seeds 5 -mutant.rooms -timeout 60m
piece model "$GO" run ./test/model -steps 5000000 -seed "$seed"
piece model-all "$GO" run ./test/model -all -steps 12000000
piece cuts "$GO" test -v ./test/faults -run 'Checker|Cuts|WhatIsPublished' -cut.seeds 30 -cut.first "$seed" -timeout 30m
piece tree "$GO" test -v ./cmd/tree -crash.every 1 -timeout 30m
piece pasts "$GO" test -v ./internal/projector -run 'TestWhatMatchedBefore' -past.seeds 2000 -timeout 30m
piece memories "$GO" test -v ./internal/snapshot -run 'TestNoTable|TestEveryNodeHears|TestAReplayUntil|TestThePastIs' -memory.seeds 60 -watch.seeds 60 -past.seeds 20 -replay.every 1 -count 5 -timeout 30m
piece origins "$GO" test -v ./internal/snapshot -run 'TestALogThatIsCut' -origin.every 1 -count 20 -timeout 30m
repeat kills 5
repeat workers 2
repeat cluster 5
repeat clocks 2
repeat power 5
repeat packets 4
piece power-cut "$GO" test -v ./test -run 'TestAPowerCut' -trouble.long -crash.seed "$seed" -timeout 30m
piece trouble "$GO" test -v ./test -run 'TestAWorker|TestTwoPublishers|TestAHub|TestAWindow|TestALogThatLost|TestALogThatIsMade|TestAKeyIs|TestALogThatMet|TestABackupAnd|TestACompaction|TestAStreamIs|TestOthers|TestAGenerated' -trouble.long -crash.seed "$seed" -timeout 60m
piece junk "$GO" test -v ./test -run 'TestALogOfJunk' -trouble.long -crash.seed "$seed" -timeout 60m
piece routes env CGO_ENABLED=1 "$GO" test -race -v ./internal/api -run 'TestEveryRouteRefuses|TestThePastIs' -bad.all -past.steps 60 -timeout 30m
piece attacks "$GO" test -v ./test -run 'TestTenantsForge' -attacks 10000 -attacks.seed "$seed" -timeout 30m
piece fleet "$GO" test -v ./test -run 'TestAFleetOnRealPolicies' -trouble.long -timeout 30m
piece tables "$GO" test -v ./internal/compiler/datapath -run 'TestTheTableAnswers' -datapath.lookups 1000000 -datapath.first "$seed" -timeout 30m
piece meaning "$GO" test -v ./internal/snapshot -run 'TestOnePolicyHasOneMeaning' -meaning.flows 1000000 -meaning.seed "$seed" -timeout 30m

left=$(grep -hE '^(LEFT OUT|WITH LESS): ' "$dir"/*.log 2>/dev/null | sort -u)
[ "$pieces" = list ] || [ -z "$left" ] || printf 'not all was tried here:\n%s\n' "$left"
[ -z "$failed" ] || { echo "failed:$failed"; exit 1; }
