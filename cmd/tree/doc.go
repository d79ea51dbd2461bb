// Package tree keeps compiled artifacts as files: a directory for each node,
// below it mgmt/agent.json and mgmt/vertices/<name>.json. It decides which nodes
// a compilation changes and which version they get, signs what changed, and
// puts the new tree in the place of the old one so that whoever looks, and
// whatever is left by a crash, is one of the two and never between.
package tree
