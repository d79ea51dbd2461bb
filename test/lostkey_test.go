package test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestALostKeyIsReplacedAsThePageSays runs the command of docs/keys.md, "When a key
// was lost", as it is written there.
func TestALostKeyIsReplacedAsThePageSays(t *testing.T) {
	p := newDrill(t, "keys.md")
	p.start()
	node := "/v1/projects/" + defaultProject + "/nodes/web-1"
	p.do("PUT", node, map[string]any{"labels": map[string]string{}, "addresses": []string{}}, 201)
	p.runs("edict key list -o json > keys.json", 0)
	before := p.keys()
	p.terminate()
	key := filepath.Join(p.data, "signing.key")
	require.NoError(t, os.Remove(key))
	refused(t, p.data, 6, []string{key + " is gone", "put the file back", "docs/keys.md"}, "--http", anyPort, "--nats-listen", "none")

	p.runs(`mv 'data/nats/jetstream/$G/streams/KV_EDICT_META' data/KV_EDICT_META.lost`, 0)
	p.start()
	p.do("GET", node, nil, 200)
	p.runs("edict key list -o json > keys.json", 0)
	require.NotEqual(t, before, p.keys(), "a new key signs")
	require.FileExists(t, key)
}

// TestALostKeyOfACompactedLogIsReplacedAsThePageSays: its origin was signed by that key, so
// the log is made anew of its whole archive.
func TestALostKeyOfACompactedLogIsReplacedAsThePageSays(t *testing.T) {
	p := newDrill(t, "keys.md")
	p.start()
	node := "/v1/projects/" + defaultProject + "/nodes/web-"
	for _, n := range []string{"1", "2", "3"} {
		p.do("PUT", node+n, map[string]any{"labels": map[string]string{}, "addresses": []string{}}, 201)
	}
	p.does("edict log compact --keep 3 --archive ./history", 0)
	p.terminate()
	require.NoError(t, os.Remove(filepath.Join(p.data, "signing.key")))
	p.runs("edict log export --to ./history --log ./data", 0)
	p.runs("edict log import --from ./history --data ./moved", 0)
	p.data = filepath.Join(p.dir, "moved")
	p.start()
	for _, n := range []string{"1", "2", "3"} {
		p.do("GET", node+n, nil, 200)
	}
	require.FileExists(t, filepath.Join(p.data, "signing.key"))
}

// keys is the file that the page has made.
func (d *drill) keys() string {
	d.t.Helper()
	text, err := os.ReadFile(filepath.Join(d.dir, "keys.json"))
	require.NoError(d.t, err)
	return string(text)
}
