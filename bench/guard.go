package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// mostOfBefore is how much CPU an item may cost, as a part of what it cost an older certplane,
// in the median of the rounds of the guard.
const mostOfBefore = 1.1

// comparison compares the cost of one kind of item with its cost for an older certplane.
type comparison struct {
	What string `json:"what"`
	// CPU is the server's for each item, in the order of the rounds.
	CPUMilliseconds       []float64 `json:"cpuMilliseconds"`
	BeforeCPUMilliseconds []float64 `json:"beforeCPUMilliseconds"`
	// Ratios are CPU to CPU before of the same round, sorted; CPU is their median.
	Ratios []float64 `json:"ratios"`
	CPU    float64   `json:"cpu"`
	// AllocatedKB and Allocations are medians of the ratios of what is allocated.
	AllocatedKB float64 `json:"allocatedKB"`
	Allocations float64 `json:"allocations"`
	// Kubernetes is the median of the ratios of CPU to Kubernetes', if it was measured.
	Kubernetes float64 `json:"kubernetes,omitempty"`
	// Failed are items of all rounds, of both programs.
	Failed int `json:"failed"`
}

// compareWithBefore compares what an older certplane was also measured with.
func compareWithBefore(rounds []*results) []comparison {
	var all []comparison
	for i, first := range rounds[0].items() {
		if rounds[0].Before == nil || rounds[0].Before.item(first.what) == nil {
			continue
		}
		c := comparison{What: first.what}
		var bytes, objects, kubernetes []float64
		for _, r := range rounds {
			now, before := r.items()[i], r.Before.item(first.what)
			c.CPUMilliseconds = append(c.CPUMilliseconds, now.ServerCPUMilliseconds)
			c.BeforeCPUMilliseconds = append(c.BeforeCPUMilliseconds, before.ServerCPUMilliseconds)
			c.Ratios = append(c.Ratios, ratio(now.ServerCPUMilliseconds, before.ServerCPUMilliseconds))
			bytes = append(bytes, ratio(now.AllocatedKB, before.AllocatedKB))
			objects = append(objects, ratio(now.Allocations, before.Allocations))
			kubernetes = append(kubernetes, now.kubernetes)
			c.Failed += now.failed + before.failed
		}
		c.CPU, c.AllocatedKB, c.Allocations, c.Kubernetes = median(c.Ratios), median(bytes), median(objects), median(kubernetes)
		all = append(all, c)
	}
	return all
}

// item is a kind of item whose cost was measured.
type item struct {
	what string
	cost
	failed int
	// kubernetes is the ratio of CPU to Kubernetes', or 0.
	kubernetes float64
}

func (r *results) items() []item {
	var all []item
	for _, s := range r.Systems {
		for _, round := range s.Rounds {
			one := item{fmt.Sprintf("%s, %d requesters", s.Name, round.Requesters), round.cost, round.Errors, 0}
			if round.Ratios != nil {
				one.kubernetes = round.Ratios.CPU
			}
			all = append(all, one)
		}
	}
	for _, l := range r.Pods {
		if l.Name != killedRound { // its CPU is not known
			all = append(all, item{"pods, " + l.Name, l.cost, l.Errors + l.Lost, 0})
		}
	}
	for _, l := range r.Certificates {
		all = append(all, item{l.System + ", Certificates, " + l.Name, l.cost, l.Errors + l.Lost, 0})
	}
	for _, a := range r.Agent {
		all = append(all, item{fmt.Sprintf("agent, %s, one write %t", a.Round, a.OneWrite), a.cost, 0, 0})
	}
	for _, a := range r.ACME {
		all = append(all, item{a.System + ", ACME orders, " + a.Proof, a.cost, a.Errors, 0})
	}
	return all
}

// item returns an item, or nil.
func (r *results) item(what string) *item {
	for _, one := range r.items() {
		if one.what == what {
			return &one
		}
	}
	return nil
}

// verdict returns why the guard fails, or nil.
func verdict(all []comparison) error {
	if len(all) == 0 {
		return errors.New("nothing was compared with an older certplane")
	}
	var failed []error
	for _, c := range all {
		switch {
		case c.Failed > 0:
			failed = append(failed, fmt.Errorf("%s: %d failed, so costs cannot be compared", c.What, c.Failed))
		case c.CPU == 0:
			failed = append(failed, fmt.Errorf("%s: no CPU was measured", c.What))
		case c.CPU > mostOfBefore:
			failed = append(failed, fmt.Errorf("%s: the CPU for each is %.2f of before's in the median, more than %.2f", c.What, c.CPU, mostOfBefore))
		}
	}
	return errors.Join(failed...)
}

func writeComparisons(out io.Writer, all []comparison) error {
	if len(all) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\tserver CPU ms\tbefore\tof before's\tleast\tmost\tallocated KB\tallocations\tof Kubernetes'\tfailed\t")
	for _, c := range all {
		now, before := median(slices.Clone(c.CPUMilliseconds)), median(slices.Clone(c.BeforeCPUMilliseconds))
		fmt.Fprintf(table, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%d\t\n", c.What, now, before, c.CPU, c.Ratios[0], c.Ratios[len(c.Ratios)-1],
			c.AllocatedKB, c.Allocations, c.Kubernetes, c.Failed)
	}
	fmt.Fprintf(table, "CPU is for each item, in the median of %d rounds. Allocated KB and allocations are also of before's. Kubernetes' is 0 without Kubernetes.\n", len(all[0].Ratios))
	return table.Flush()
}
