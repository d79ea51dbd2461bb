// Package ui serves the console: one page that shows the plane in a browser, with
// everything that it needs in the binary.
//
// The page asks the routes of the API that everybody asks, as whoever opened its session
// (package api), and may do what that principal may. This package serves files and
// nothing else. Its sources are in ui/ of the repository; make ui builds dist from them.
package ui
