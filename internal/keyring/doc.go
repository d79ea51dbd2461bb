// Package keyring keeps the keys that one worker of a plane signs with, through
// their life: which files hold them, which of them the plane signs with now, how
// it is replaced, and when the one before goes.
//
// One record in bucket EDICT_META says with which key the plane signs. It is
// moved by compare-and-set alone, and every worker goes by it, so all of them
// sign alike without speaking to each other. A worker that lacks the key that
// the record names ends: what it signed would be refused. Nobody signs with a
// new key before the log shows who replaced the one before.
//
// How nodes learn of a rotation is package artifact's business, who may ask
// for one package api's.
package keyring
