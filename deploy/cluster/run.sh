#!/usr/bin/env bash
# Scale out on one machine, to look at: three NATS servers, three workers, NODES nodes in them, then a rolling upgrade of
# the workers while FOLLOWERS nodes follow over NATS and a policy is revised again and again. It prints what it measured,
# ends by itself, and exits 1 if a node missed something. make cluster-demo runs it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
nodes=${NODES:-1000000} followers=${FOLLOWERS:-12} base=${PORT:-24200}
dir=$(mktemp -d)
pids=()
cleanup() {
	for p in "${pids[@]}"; do kill "$p" 2>/dev/null || true; done
	wait 2>/dev/null || true
	rm -rf "$dir"
}
trap cleanup EXIT
say() { printf '%s\n' "$*"; }
now() { date +%s%3N; } # milliseconds
await() { # what, seconds, command
	local what=$1 end=$((SECONDS + $2))
	shift 2
	until "$@" >/dev/null 2>&1; do
		((SECONDS < end)) || { say "gave up: $what" >&2; exit 1; }
		sleep 0.1
	done
}
cpu() { awk -v hz="$(getconf CLK_TCK)" '{print ($14 + $15) / hz}' "/proc/$1/stat"; }

go build -o bin/ ./cmd/edict github.com/nats-io/nats-server/v2

# The servers, each with its own store, as deploy/nats.conf has them.
urls=()
for i in 0 1 2; do
	cat >"$dir/nats-$i.conf" <<END
server_name: nats-$i
listen: "127.0.0.1:$((base + i))"
max_payload: 8MB
jetstream { store_dir: "$dir/nats-$i", max_file_store: 18GB, sync_interval: always }
cluster {
  name: edict
  listen: "127.0.0.1:$((base + 10 + i))"
  routes: [ $(for j in 0 1 2; do echo "nats-route://127.0.0.1:$((base + 10 + j))"; done | paste -sd,) ]
}
END
	bin/nats-server --config "$dir/nats-$i.conf" >"$dir/nats-$i.log" 2>&1 &
	pids+=($!)
	urls+=("nats://127.0.0.1:$((base + i))")
done
nats=$(IFS=,; echo "${urls[*]}")
openssl genpkey -algorithm ed25519 -out "$dir/plane.pem" 2>/dev/null
chmod 600 "$dir/plane.pem"

declare -A worker
http() { echo "http://127.0.0.1:$((base + 20 + $1))"; }
start() {
	bin/edict serve --name "w$1" --data "$dir/w$1" --nats "$nats" --replicas 3 --signing-key "$dir/plane.pem" \
		--http "127.0.0.1:$((base + 20 + $1))" >>"$dir/w$1.log" 2>&1 &
	worker[$1]=$!
	pids+=($!)
}
# The servers take a moment to agree on a leader; until then a worker ends with 7 and is started again.
first() {
	start "$1"
	for _ in $(seq 600); do
		bin/edict probe readyz --server "$(http "$1")" >/dev/null 2>&1 && return
		sleep 0.2
		kill -0 "${worker[$1]}" 2>/dev/null || start "$1"
	done
	say "worker w$1 does not start:" >&2
	tail -3 "$dir/w$1.log" >&2
	exit 1
}
for i in 0 1 2; do first $i; done
say "3 NATS servers, 3 workers"

# The nodes.
began=$(now)
awk -v n="$nodes" 'BEGIN { for (i = 0; i < n; i++) printf "{\"id\":\"n-%d\",\"labels\":{\"env\":\"prod\",\"role\":\"r%d\",\"zone\":\"z%d\"},\"addresses\":[]}\n", i, i % 1000, i % 7 }' |
	bin/edict node import --server "$(http 0)" -f - >"$dir/import.txt" 2>&1
took=$(($(now) - began))
for i in 0 1 2; do await "worker w$i has folded the nodes" 3600 sh -c "bin/edict node get n-$((nodes - 1)) --server $(http $i)"; done
say "$nodes nodes imported in $((took / 1000)).$(printf %03d $((took % 1000))) s, $((nodes * 1000 / took)) a second; all workers have them after $((($(now) - began) / 1000)) s"

# Revisions are sent as a program sends them: edict policy apply has the plane look for what is likely not meant, at every
# node of the project.
project=00000000-0000-4000-8000-000000000000
policy=$(printf 'slug: web\nselector: {source: role=r2, destination: role=r1}\nrules:\n  - {action: allow, protocol: tcp, source_cidr: 10.0.0.0/8, destination_cidr: 10.0.0.0/8, ports: {from: 1000, to: 1000}}\n' |
	bin/edict policy apply --server "$(http 0)" -o json -f - | sed -n 's/.*"id": *"\([^"]*\)".*/\1/p' | head -1)
revise() { # port, worker
	curl -sf -m 20 -o "$dir/answer" -X PATCH -H 'Content-Type: application/json' "$(http "$2")/v1/projects/$project/policies/$policy" --data @- <<-END
		{"rules":[{"action":"allow","protocol":"tcp","source_cidr":"10.0.0.0/8","destination_cidr":"10.0.0.0/8","ports":{"from":$1,"to":$1}}]}
	END
}

# Nodes of role r1 follow over NATS, whoever publishes.
for f in $(seq 0 $((followers - 1))); do
	bin/edict node watch "n-$((f * 1000 + 1))" --nats "${urls[0]}" --server "$(http 0)" --state "$dir/f$f.json" >"$dir/f$f.txt" 2>&1 &
	pids+=($!)
done
await "followers hear" 120 sh -c "for f in \$(seq 0 $((followers - 1))); do test -s $dir/f\$f.json || exit 1; done"

# The upgrade: one worker after the other ends and comes back, and revisions go on at those that are there.
say "rolling upgrade, with $followers nodes following and a revision every half second:"
echo none >"$dir/down"
echo 1000 >"$dir/revision"
revisions() {
	local revision=1000 at=0
	until [[ -e $dir/enough ]]; do
		at=$(((at + 1) % 3))
		[[ $at != "$(<"$dir/down")" ]] || continue
		if revise $((revision + 1)) $at; then
			revision=$((revision + 1))
			echo $revision >"$dir/revision.new" && mv "$dir/revision.new" "$dir/revision" # readers find the one or the other
		fi
		sleep 0.5
	done
}
revisions &
reviser=$!
pids+=("$reviser")
for i in 0 1 2; do
	echo $i >"$dir/down"
	began=$(now)
	before=$(cpu "${worker[$i]}")
	from=$(<"$dir/revision")
	kill "${worker[$i]}"
	wait "${worker[$i]}" || true
	stopped=$(($(now) - began))
	start "$i"
	await "worker w$i is ready again" 600 bin/edict probe readyz --server "$(http "$i")"
	took=$(($(now) - began))
	say "  w$i: stopped in $stopped ms, ready again after $took ms, with $(($(<"$dir/revision") - from)) revisions meanwhile; it had used $before s of CPU, and took $(cpu "${worker[$i]}") s to start"
	echo none >"$dir/down"
	await "a revision is taken after that" 120 sh -c "test \$(cat $dir/revision) -gt $(<"$dir/revision")"
done
touch "$dir/enough"
wait "$reviser"
revision=$(<"$dir/revision")
((revision > 1000)) || { say "no worker took a revision" >&2; exit 1; }
missed=0
for f in $(seq 0 $((followers - 1))); do
	end=$((SECONDS + 60))
	until grep -q "$revision" "$dir/f$f.txt" "$dir/f$f.json"; do
		((SECONDS < end)) || { missed=$((missed + 1)); break; }
		sleep 0.2
	done
done
say "$((revision - 1000)) revisions; $((followers - missed)) of $followers nodes have the last one"
for i in 0 1 2; do say "  w$i: $(cpu "${worker[$i]}") s of CPU since its start, $(($(awk '/VmRSS/ {print $2}' "/proc/${worker[$i]}/status") / 1024)) MiB resident"; done
digests=$(for i in 0 1 2; do bin/edict status --digest --server "$(http "$i")" -o json | sed -n 's/.*"digest": *"\([^"]*\)".*/\1/p'; done | sort -u | wc -l)
say "digests of the three read models: $digests"
((missed == 0 && digests == 1))
