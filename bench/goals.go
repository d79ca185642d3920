package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// goal is something that was measured and, if Limit is not 0, the number that it
// should reach.
type goal struct {
	What string  `json:"what"`
	Unit string  `json:"unit"`
	Is   float64 `json:"is"`
	// Before is the number of an older certplane, if one was measured.
	Before *float64 `json:"before,omitempty"`
	// Limit is the least that Is should be if AtLeast, otherwise the most.
	Limit   float64 `json:"limit,omitempty"`
	AtLeast bool    `json:"atLeast,omitempty"`
}

// met reports whether a goal is reached; "" if it is only reported.
func (g goal) met() string {
	switch {
	case g.Limit == 0:
		return ""
	case g.AtLeast == (g.Is >= g.Limit), g.Is == g.Limit:
		return "yes"
	default:
		return "no"
	}
}

func (g goal) bound() string {
	switch {
	case g.Limit == 0:
		return "reported"
	case g.AtLeast:
		return fmt.Sprintf(">= %.4g", g.Limit)
	default:
		return fmt.Sprintf("<= %.4g", g.Limit)
	}
}

// goalsOf returns the goals for which there are results.
func goalsOf(r *results) []goal {
	var all []goal
	all = append(all, ratioGoals(r.system(threeStepSystem), 2, 0, 0.45, 0.35)...)
	all = append(all, ratioGoals(r.system(oneWriteSystem), 5, 0.25, 0.2, 0)...)
	for _, s := range r.Systems {
		if s.Name != kubernetesSystem {
			all = append(all, s.rateGoals()...)
		}
	}
	all = append(all, stepGoals(r.system(threeStepSystem), r.system(oneWriteSystem))...)
	all = append(all, podGoals(r.Pods)...)
	all = append(all, certificateGoals(r.Certificates)...)
	if r.Console != nil {
		all = append(all, r.Console.goals()...)
	}
	if r.Inventory != nil {
		all = append(all, r.Inventory.goals()...)
	}
	if r.Revocation != nil {
		all = append(all, r.Revocation.goals()...)
	}
	for _, t := range r.Trust {
		all = append(all, t.goals()...)
	}
	if p := r.Policies; p != nil {
		all = append(all,
			goal{What: "requests with policies: rate", Unit: "of without", Is: p.Rate, Limit: 0.9, AtLeast: true},
			goal{What: "requests with policies: CPU", Unit: "of without", Is: p.CPU},
		)
	}
	if s := r.Secrets; s != nil {
		all = append(all, goal{What: fmt.Sprintf("memory of %d Secrets after a restart", s.Secrets), Unit: "MB", Is: s.Restarted.AnonymousMB - s.Before.AnonymousMB, Limit: 30})
	}
	if r.Memory != nil {
		all = append(all,
			goal{What: "memory, idle", Unit: "MB", Is: r.Memory.Idle.ResidentMB, Limit: 100},
			goal{What: fmt.Sprintf("memory after %d certificates and %.0f s of calm", r.Memory.Load.Certificates, r.Memory.CalmSeconds), Unit: "MB", Is: r.Memory.Calm.ResidentMB, Limit: 220},
		)
	}
	for _, s := range r.Starts {
		all = append(all, goal{What: "start with " + s.Holds + ", median", Unit: "s", Is: s.MedianSeconds, Limit: 0.7},
			goal{What: "start with " + s.Holds + ": CPU", Unit: "s", Is: s.CPUSeconds})
	}
	for _, a := range r.Agent {
		what := fmt.Sprintf("agent, %s of %d pods, one write %t", a.Round, a.Pods, a.OneWrite)
		all = append(all, goal{What: what, Unit: "s", Is: a.Seconds}, goal{What: what + ": CPU of agent and server", Unit: "s", Is: a.AgentCPUSeconds + a.ServerCPUMilliseconds*float64(a.Pods)/1000})
	}
	all = append(all, acmeGoals(r.ACME)...)
	all = append(all, floodGoals(r.Floods)...)
	for _, s := range r.Signing {
		if s.Name == stepCAPeer {
			all = append(all, signGoals(r.system(oneWriteSystem), s.roundResult)...)
		}
		all = append(all, goal{What: s.Name, Unit: "/s", Is: s.Rate}, goal{What: s.Name + ": CPU for each", Unit: "ms", Is: s.cpu()})
	}
	return all
}

// p99Requesters is the round whose 99th percentile has a goal.
const p99Requesters = 64

// ratioGoals are the goals of a system compared with Kubernetes. A limit of 0 means no
// limit.
func ratioGoals(s *systemResult, rate, p99, cpu, settled float64) []goal {
	var all []goal
	if s == nil {
		return nil
	}
	for _, r := range s.Rounds {
		what := fmt.Sprintf("%s, %d requesters", s.Name, r.Requesters)
		if r.InAnswer > 0 || s.Name == oneWriteSystem {
			all = append(all, goal{What: what + ": certificates in the answer", Unit: "of all", Is: float64(r.InAnswer) / float64(max(1, r.Certificates)), Limit: 1, AtLeast: true})
		}
		if r.Ratios == nil {
			continue
		}
		all = append(all, goal{What: what + ": rate", Unit: "of Kubernetes'", Is: r.Ratios.Rate, Limit: rate, AtLeast: true})
		if r.Requesters == p99Requesters {
			all = append(all, goal{What: what + ": p99", Unit: "of Kubernetes'", Is: r.Ratios.P99, Limit: p99})
		}
		all = append(all,
			goal{What: what + ": CPU", Unit: "of Kubernetes'", Is: r.Ratios.CPU, Limit: cpu},
			goal{What: what + ": memory settled", Unit: "of Kubernetes'", Is: r.Ratios.MemorySettled, Limit: settled},
		)
	}
	return all
}

// leastRate is the least that a rate may be of the best rate with fewer requesters. Rates of
// the same load differ by some per cent.
const leastRate = 0.95

// rateGoals compare each rate with the best rate with fewer requesters.
func (s systemResult) rateGoals() []goal {
	rounds := slices.SortedFunc(slices.Values(s.Rounds), func(a, b roundResult) int { return cmp.Compare(a.Requesters, b.Requesters) })
	var all []goal
	best := 0.0
	for _, r := range rounds {
		if best > 0 {
			all = append(all, goal{What: fmt.Sprintf("%s, %d requesters: rate", s.Name, r.Requesters), Unit: "of the best with fewer", Is: r.Rate / best, Limit: leastRate, AtLeast: true})
		}
		best = max(best, r.Rate)
	}
	return all
}

// signGoals compare one write with a sign call of step-ca, of as many requesters.
func signGoals(one *systemResult, call roundResult) []goal {
	var all []goal
	if one == nil {
		return nil
	}
	for _, r := range one.Rounds {
		if r.Requesters == call.Requesters {
			all = append(all,
				goal{What: one.Name + ": CPU", Unit: "of step-ca's sign call", Is: ratio(r.ServerCPUMilliseconds, call.ServerCPUMilliseconds), Limit: 1},
				goal{What: one.Name + ": rate", Unit: "of step-ca's sign call", Is: ratio(r.Rate, call.Rate), Limit: 1, AtLeast: true},
			)
		}
	}
	return all
}

// stepGoals compare one write with three steps, without Kubernetes.
func stepGoals(steps, one *systemResult) []goal {
	if steps == nil || one == nil {
		return nil
	}
	var all []goal
	for i, r := range one.Rounds {
		what := fmt.Sprintf("%s, %d requesters", one.Name, r.Requesters)
		all = append(all,
			goal{What: what + ": rate", Unit: "of three steps'", Is: ratio(r.Rate, steps.Rounds[i].Rate)},
			goal{What: what + ": CPU", Unit: "of three steps'", Is: ratio(r.ServerCPUMilliseconds, steps.Rounds[i].ServerCPUMilliseconds)},
		)
	}
	return all
}

// podGoals compare one write with three steps.
func podGoals(rounds []loadResult) []goal {
	by := map[string]loadResult{}
	for _, r := range rounds {
		by[r.Name] = r
	}
	steps, one, steady := by["at-once"], by["one-write"], by["steady"]
	if steps.LastSeconds == 0 || one.LastSeconds == 0 {
		return nil
	}
	return []goal{
		{What: fmt.Sprintf("%d PodCertificateRequests at once, one write", one.Requests), Unit: "s", Is: one.LastSeconds, Limit: 5},
		{What: fmt.Sprintf("%d PodCertificateRequests at once, one write", one.Requests), Unit: "of the time of three steps", Is: one.LastSeconds / steps.LastSeconds, Limit: 1.0 / 3},
		{What: fmt.Sprintf("PodCertificateRequests, %d a second, p99", podsPerSecond), Unit: "ms", Is: steady.P99Milliseconds, Limit: 250},
		{What: "PodCertificateRequests: certificates in the answer", Unit: "of all", Is: float64(one.InAnswer) / float64(max(1, one.Issued)), Limit: 1, AtLeast: true},
	}
}

// certificateGoals are about the rounds with ECDSA keys.
func certificateGoals(rounds []loadResult) []goal {
	var all []goal
	var ours loadResult
	for _, r := range rounds {
		switch {
		case r.Name != "ecdsa" || r.LastSeconds == 0:
		case r.System == threeStepSystem:
			ours = r
			all = append(all,
				goal{What: fmt.Sprintf("%d Certificates at once: CPU for each", r.Requests), Unit: "ms", Is: r.ServerCPUMilliseconds, Limit: 11},
				goal{What: "Certificates at once: half are Ready", Unit: "of the last's time", Is: r.MedianSeconds / r.LastSeconds, Limit: 0.5},
				goal{What: "Certificates at once: the last is Ready", Unit: "s", Is: r.LastSeconds},
			)
		case ours.LastSeconds > 0:
			all = append(all,
				goal{What: "Certificates at once: CPU for each", Unit: "of " + r.System, Is: ours.ServerCPUMilliseconds / r.ServerCPUMilliseconds},
				goal{What: "Certificates at once: the last is Ready", Unit: "of " + r.System, Is: ours.LastSeconds / r.LastSeconds},
			)
		}
	}
	return all
}

func writeGoals(out io.Writer, goals []goal) error {
	if len(goals) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "what\tis\tbefore\tunit\tgoal\tmet")
	for _, g := range goals {
		before := ""
		if g.Before != nil {
			before = fmt.Sprintf("%.3g", *g.Before)
		}
		fmt.Fprintf(table, "%s\t%.3g\t%s\t%s\t%s\t%s\n", g.What, g.Is, before, g.Unit, g.bound(), g.met())
	}
	return table.Flush()
}
