package watch

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/edictdev/edict/test/check"
)

// Pull reads a node's rows from the plane at base, and the sequence its stream
// goes on after: taken first, so that nothing falls in between.
func Pull(client *http.Client, base, node string) (s check.Session, err error) {
	_, after, err := State(client, base, node)
	if err != nil {
		return s, err
	}
	body, _, err := get(client, base+"/v1/nodes/"+node+"/rulesets")
	if err != nil {
		return s, err
	}
	var list struct {
		Items []struct {
			PolicyID    string `json:"policy_id"`
			Fingerprint string `json:"fingerprint"`
			RulePayload string `json:"rule_payload"`
		} `json:"items"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return s, err
	}
	s = check.Session{Over: "pull", After: after, Rows: map[string]check.Frame{}}
	for _, r := range list.Items {
		s.Rows[r.PolicyID] = check.Frame{Node: node, Policy: r.PolicyID, Fingerprint: r.Fingerprint, Rules: r.RulePayload}
	}
	return s, nil
}

// State reads a node's state and the sequence its stream goes on after.
func State(client *http.Client, base, node string) (body string, after uint64, err error) {
	b, header, err := get(client, base+"/v1/nodes/"+node+"/state")
	if err != nil {
		return "", 0, err
	}
	after, err = strconv.ParseUint(header.Get("Edict-Node-Seq"), 10, 64)
	return string(b), after, err
}

func get(client *http.Client, url string) (body []byte, header http.Header, err error) {
	resp, err := client.Get(url)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	if body, err = io.ReadAll(resp.Body); err != nil {
		return nil, nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("%s: %s: %.200s", url, resp.Status, body)
	}
	return body, resp.Header, nil
}
