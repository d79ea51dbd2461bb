// Package archive keeps a log outside of any plane: in files that plain tools
// read (docs/archive.md), each of which proves what it holds.
//
// An archive is a directory of segments, or a bucket of a store that speaks S3. A
// segment has a header, one event on each line, and a trailer, compressed with zstd. The
// chain hash runs through all of them as it runs through the log, so that an event that
// is missing, doubled, moved or changed is found, and named by file and line. Export
// appends whole segments to an archive; Import makes a log of one that has the same
// sequences, times and bytes.
//
// What an event means is the fold's business, and where a new log lies is that of
// package streams.
package archive
