package watch

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/edictdev/edict/policy"
)

// Pull reads a node's rows from the plane at base, and the event id to go on
// after: taken first, so that nothing falls in between.
func Pull(client *http.Client, base, node string) (s Session, err error) {
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
			RevisionID  string `json:"revision_id"`
			Fingerprint string `json:"fingerprint"`
			RulePayload string `json:"rule_payload"`
		} `json:"items"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return s, err
	}
	s = Session{Over: "pull", After: after, Rows: map[string]Frame{}}
	for _, r := range list.Items {
		s.Rows[r.PolicyID] = Frame{Node: node, Policy: r.PolicyID, Revision: r.RevisionID, Fingerprint: r.Fingerprint, Rules: r.RulePayload}
	}
	return s, nil
}

// State reads a node's state and the event id to go on after.
func State(client *http.Client, base, node string) (body string, after policy.EventID, err error) {
	b, header, err := get(client, base+"/v1/nodes/"+node+"/state")
	if err != nil {
		return "", 0, err
	}
	after, err = policy.ParseEventID(header.Get("Edict-Event-Id"))
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
