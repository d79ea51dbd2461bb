// Package progress shows how far a long piece of work is: a bar on a terminal,
// plain lines anywhere else, and nothing at all about work that is done within
// two seconds.
package progress

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/jedib0t/go-pretty/v6/progress"
	"golang.org/x/term"

	"github.com/edictdev/edict/cmd/internal/cli"
)

// When work is shown, and how often a line says so where there is no terminal.
const (
	patience  = 2 * time.Second
	lineEvery = 5 * time.Second
)

// Work is a piece of work being shown. Its methods are safe for concurrent use.
type Work struct {
	out   io.Writer
	title string
	unit  string
	total atomic.Int64
	done  atomic.Int64
	began time.Time
	stop  chan struct{}
	ended chan struct{}
}

// Start begins to show work of so many units. Stop must be called.
func Start(out io.Writer, title, unit string, total int64) *Work {
	w := &Work{
		out: cli.Whole(out), title: title, unit: unit, began: time.Now(),
		stop: make(chan struct{}), ended: make(chan struct{}),
	}
	w.total.Store(total)
	go w.show()
	return w
}

// Add counts units as done.
func (w *Work) Add(n int64) { w.done.Add(n) }

// Set says how many units are done.
func (w *Work) Set(n int64) { w.done.Store(n) }

// SetTotal says how many units there are; 0: nobody knows.
func (w *Work) SetTotal(n int64) { w.total.Store(n) }

// Stop ends the showing and leaves the cursor on a fresh line.
func (w *Work) Stop() {
	close(w.stop)
	<-w.ended
}

func (w *Work) show() {
	defer close(w.ended)
	tracker := &progress.Tracker{Message: w.title}
	tracker.Start() // now, so that time and rate are those of the work
	select {
	case <-w.stop:
		return
	case <-time.After(patience):
	}
	if f, ok := w.out.(*os.File); ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb" {
		w.bar(tracker)
		return
	}
	w.lines()
}

func (w *Work) lines() {
	tick := time.NewTicker(lineEvery)
	defer tick.Stop()
	for {
		done := w.done.Load()
		rate := float64(done) / time.Since(w.began).Seconds()
		of, left := "", ""
		if total := w.total.Load(); total > 0 {
			of = fmt.Sprintf(" of %d", total)
			if rate > 0 && done < total {
				left = fmt.Sprintf(", %v left", time.Duration(float64(total-done)/rate*float64(time.Second)).Round(time.Second))
			}
		}
		fmt.Fprintf(w.out, "%s: %d%s %s, %.0f/s%s\n", w.title, done, of, w.unit, rate, left)
		select {
		case <-tick.C:
		case <-w.stop:
			return
		}
	}
}

func (w *Work) bar(tracker *progress.Tracker) {
	const refresh = 100 * time.Millisecond
	pw := progress.NewWriter()
	pw.SetOutputWriter(w.out)
	pw.SetUpdateFrequency(refresh)
	pw.SetTrackerPosition(progress.PositionRight)
	pw.Style().Visibility.ETA = true
	pw.Style().Visibility.Speed = true
	if os.Getenv("NO_COLOR") == "" {
		pw.Style().Colors = progress.StyleColorsExample
	}
	tracker.UpdateTotal(w.total.Load())
	pw.AppendTracker(tracker)
	rendered := make(chan struct{})
	go func() {
		defer close(rendered)
		pw.Render()
	}()
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	for running := true; running; {
		select {
		case <-tick.C:
		case <-w.stop:
			running = false
		}
		tracker.UpdateTotal(w.total.Load())
		tracker.SetValue(w.done.Load())
	}
	if w.done.Load() >= w.total.Load() {
		tracker.MarkAsDone()
	} else {
		tracker.MarkAsErrored()
	}
	pw.Stop()
	<-rendered
}
