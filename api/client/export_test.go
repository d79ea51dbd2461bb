package client

// Bound has a client refuse what is larger, in bytes: what no plane answers would take a test
// many seconds.
func (c *Client) Bound(largest int64) { c.largest = largest }
