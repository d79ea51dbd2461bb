package rete

// ListKey is for tests of names that hold what separates names.
var ListKey = listKey
