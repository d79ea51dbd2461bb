#!/bin/sh
# Prints TMPDIR=/dev/shm where that is memory of which 4 GiB are free, and programs may be run from there.
d=/dev/shm
[ -w "$d" ] && [ "$(df -Pk "$d" | awk 'NR == 2 { print $4 }')" -ge 4194304 ] || exit 0
f=$(mktemp "$d/edict.XXXXXX") || exit 0
printf '#!/bin/sh\n' >"$f" && chmod +x "$f" && "$f" 2>/dev/null && echo "TMPDIR=$d"
rm "$f"
