package hostile

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// diskBound is the most that each of the times in the table of full disks may be.
const diskBound = 10 * time.Second

// diskResult is a line of that table.
type diskResult struct {
	name    string
	refused worst // from the full disk to the first write that is refused, with MISCONF
	slowest worst // any reply
	again   worst // from the moment at which there is space to the next write
	ended   worst // from SIGTERM to the end of the process
	code    int   // the exit code then
	verdict string
	events  []string
}

// worst is the longest of some times.
type worst struct {
	n    int
	time time.Duration
}

func (w *worst) add(d time.Duration) { w.n, w.time = w.n+1, max(w.time, d) }

func (w worst) String() string {
	if w.n == 0 {
		return "-"
	}
	return fmt.Sprintf("%d ms", w.time.Milliseconds())
}

var disks struct {
	mu  sync.Mutex
	all []diskResult
}

// reportDisk adds a line to the table.
func reportDisk(r diskResult) {
	disks.mu.Lock()
	defer disks.mu.Unlock()
	disks.all = append(disks.all, r)
}

// printDisks prints the table.
func printDisks() {
	disks.mu.Lock()
	defer disks.mu.Unlock()
	if len(disks.all) == 0 {
		return
	}
	slices.SortFunc(disks.all, func(a, b diskResult) int { return strings.Compare(a.name, b.name) }) // they end in any order
	most := worst{1, diskBound}.String()
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 1, ' ', tabwriter.Debug)
	fmt.Fprintln(w, "\nfull disk\tMISCONF\tslowest reply\twrites again\tSIGTERM\texit code\tresult\twhat happened")
	fmt.Fprintln(w, strings.Join([]string{"bound", most, most, most, most, "0", "", ""}, "\t"))
	for _, r := range disks.all {
		code := "-"
		if r.ended.n > 0 || r.code != 0 {
			code = strconv.Itoa(r.code)
		}
		fmt.Fprintln(w, strings.Join([]string{
			r.name, r.refused.String(), r.slowest.String(), r.again.String(), r.ended.String(), code, r.verdict, strings.Join(r.events, "; "),
		}, "\t"))
	}
	w.Flush()
}
