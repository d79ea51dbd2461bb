package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// machine is where the figures were taken.
type machine struct {
	Cores int    `json:"cores"`
	Model string `json:"model,omitempty"`
	Go    string `json:"go"`
	OS    string `json:"os"`
}

func thisMachine() machine {
	m := machine{Cores: runtime.NumCPU(), Go: runtime.Version(), OS: runtime.GOOS + "/" + runtime.GOARCH}
	text, _ := os.ReadFile("/proc/cpuinfo") // absent elsewhere
	if _, rest, ok := strings.Cut(string(text), "model name"); ok {
		name, _, _ := strings.Cut(rest, "\n")
		m.Model = strings.TrimSpace(strings.TrimLeft(name, "\t :"))
	}
	return m
}

func (m machine) String() string {
	s := fmt.Sprintf("%d cores, %s, %s", m.Cores, m.Go, m.OS)
	if m.Model != "" {
		s += ", " + m.Model
	}
	return s
}

// load is how busy others kept the machine. The average remembers the measure
// before, so whether others disturb shows in the cores that were busy while the
// bench itself stood still, and in those that it did not use itself meanwhile.
type load struct {
	Average float64 `json:"average"` // over one minute, before the measure; -1: not known
	Busy    float64 `json:"busy"`    // cores, just before; -1: not known
	Others  float64 `json:"others"`  // cores, of others than the bench and what it started, meanwhile; -1: not known
}

// quietCores is what a machine does for itself.
const quietCores = 0.2

func (l load) disturbed() bool { return l.Busy > quietCores || l.Others > quietCores }

// remark says what disturbed.
func (l load) remark() string {
	var s string
	if l.Busy > quietCores {
		s = fmt.Sprintf(", DISTURBED: %.1f cores were busy before it", l.Busy)
	}
	if l.Others > quietCores {
		s += fmt.Sprintf(", DISTURBED: other work took %.1f cores meanwhile", l.Others)
	}
	return s
}

// loadNow looks for half a second.
func loadNow(ctx context.Context) load {
	l := load{Average: -1, Busy: -1, Others: -1}
	text, err := os.ReadFile("/proc/loadavg")
	if err == nil {
		l.Average = firstNumber(string(text))
	}
	const look = 500 * time.Millisecond
	before, err := os.ReadFile("/proc/stat")
	if err != nil {
		return l
	}
	select {
	case <-time.After(look):
	case <-ctx.Done():
		return l
	}
	after, err := os.ReadFile("/proc/stat")
	if err != nil {
		return l
	}
	l.Busy = busyShare(cpuTimes(before), cpuTimes(after)) * float64(runtime.NumCPU())
	return l
}

func firstNumber(s string) float64 {
	first, _, _ := strings.Cut(strings.TrimSpace(s), " ")
	v, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return -1
	}
	return v
}

// cpuTimes are the counters of the first line of /proc/stat: user, nice,
// system, idle, iowait, irq, softirq, steal.
func cpuTimes(stat []byte) (times []float64) {
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	fields := strings.Fields(string(line))
	for _, f := range fields[min(1, len(fields)):] {
		v, _ := strconv.ParseFloat(f, 64)
		times = append(times, v)
	}
	return times[:min(len(times), 8)]
}

// busyShare is the share of all cores' time that was neither idle nor spent
// waiting for a disk; -1 when the counters say nothing.
func busyShare(before, after []float64) float64 {
	const idle, wait = 3, 4
	if len(before) <= wait || len(after) != len(before) {
		return -1
	}
	total, still := 0.0, 0.0
	for i := range after {
		d := after[i] - before[i]
		total += d
		if i == idle || i == wait {
			still += d
		}
	}
	if total <= 0 {
		return -1
	}
	return (total - still) / total
}

// cpuSeconds is what this process has used so far, of all cores. Unlike time
// it hardly depends on who else is at work.
func cpuSeconds() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// family is what this process has used so far, and what it started and saw end.
func family() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u) != nil {
		return cpuSeconds()
	}
	return cpuSeconds() + time.Duration(u.Utime.Nano()+u.Stime.Nano()).Seconds()
}

// meanwhile counts what others take of the machine from now on until the function that
// it returns is called: cores, -1 where that is not known. What the bench started must
// have ended by then.
func meanwhile() (others func() float64) {
	stat, err := os.ReadFile("/proc/stat")
	began, ours := time.Now(), family()
	return func() float64 {
		now, err2 := os.ReadFile("/proc/stat")
		if err != nil || err2 != nil {
			return -1
		}
		return max(0, (takenSeconds(now)-takenSeconds(stat)-(family()-ours))/time.Since(began).Seconds())
	}
}

// takenSeconds is what all processes have used since the machine started, and what the
// machine below it took from it. Interrupts are nobody's.
func takenSeconds(stat []byte) (sum float64) {
	const user, nice, system, steal, ticks = 0, 1, 2, 7, 100 // Linux counts hundredths of a second for everybody
	times := cpuTimes(stat)
	for _, i := range []int{user, nice, system, steal} {
		if i < len(times) {
			sum += times[i] / ticks
		}
	}
	return sum
}
