package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// goal is something that was measured and, if Limit is not 0, the number that it
// should reach.
type goal struct {
	What string  `json:"what"`
	Unit string  `json:"unit"`
	Is   float64 `json:"is"`
	// Limit is the least that Is should be if AtLeast, otherwise the most.
	Limit   float64 `json:"limit,omitempty"`
	AtLeast bool    `json:"atLeast,omitempty"`
}

// met says whether a goal is reached; "" if it is only reported.
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

// goalsOf returns the goals about which the results say something.
func goalsOf(r *results) []goal {
	var all []goal
	all = append(all, ratioGoals(r.system(threeStepSystem), 2.5, 0, 0.4, 0.35)...)
	all = append(all, ratioGoals(r.system(oneWriteSystem), 5, 0.2, 0.2, 0)...)
	all = append(all, stepGoals(r.system(threeStepSystem), r.system(oneWriteSystem))...)
	all = append(all, podGoals(r.Pods)...)
	all = append(all, certificateGoals(r.Certificates)...)
	if r.Console != nil {
		all = append(all, r.Console.goals()...)
	}
	if r.Inventory != nil {
		all = append(all, r.Inventory.goals()...)
	}
	if r.Memory != nil {
		all = append(all,
			goal{What: "memory, idle", Unit: "MB", Is: r.Memory.Idle.ResidentMB, Limit: 130},
			goal{What: fmt.Sprintf("memory after %d certificates and %.0f s of calm", r.Memory.Certificates, r.Memory.CalmSeconds), Unit: "MB", Is: r.Memory.Calm.ResidentMB, Limit: 250},
		)
	}
	for _, s := range r.Starts {
		all = append(all, goal{What: "start with " + s.Holds + ", median", Unit: "s", Is: s.MedianSeconds, Limit: 0.7},
			goal{What: "start with " + s.Holds + ": CPU", Unit: "s", Is: s.CPUSeconds})
	}
	for _, a := range r.Agent {
		what := fmt.Sprintf("agent, %s of %d pods, one write %t", a.Round, a.Pods, a.OneWrite)
		all = append(all, goal{What: what, Unit: "s", Is: a.Seconds}, goal{What: what + ": CPU of agent and server", Unit: "s", Is: a.AgentCPUSeconds + a.ServerCPUSeconds})
	}
	all = append(all, acmeGoals(r.ACME)...)
	all = append(all, floodGoals(r.Floods)...)
	for _, s := range r.Signing {
		all = append(all, goal{What: s.Name, Unit: "/s", Is: s.Rate}, goal{What: s.Name + ": CPU for each", Unit: "ms", Is: s.CPUMilliseconds})
	}
	return all
}

// p99Requesters is the round whose 99th percentile has a goal.
const p99Requesters = 64

// ratioGoals are those of a system beside Kubernetes. A limit of 0 is none.
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

// stepGoals compare one write with three steps, without Kubernetes.
func stepGoals(steps, one *systemResult) []goal {
	if steps == nil || one == nil {
		return nil
	}
	var all []goal
	for i, r := range one.Rounds {
		what := fmt.Sprintf("%s, %d requesters", one.Name, r.Requesters)
		all = append(all,
			goal{What: what + ": rate", Unit: "of three steps'", Is: r.Rate / steps.Rounds[i].Rate},
			goal{What: what + ": CPU", Unit: "of three steps'", Is: r.ServerCPUMilliseconds / steps.Rounds[i].ServerCPUMilliseconds},
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
	steps, one := by["at-once"], by["one-write"]
	if steps.LastSeconds == 0 || one.LastSeconds == 0 {
		return nil
	}
	return []goal{
		{What: fmt.Sprintf("%d PodCertificateRequests at once, one write", one.Requests), Unit: "of the time of three steps", Is: one.LastSeconds / steps.LastSeconds, Limit: 1.0 / 3},
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
		case r.System == "certplane":
			ours = r
			all = append(all,
				goal{What: fmt.Sprintf("%d Certificates at once: CPU for each", r.Requests), Unit: "ms", Is: r.ServerCPUMilliseconds, Limit: 11},
				goal{What: "Certificates at once: half are Ready", Unit: "of the last's time", Is: r.MedianSeconds / r.LastSeconds, Limit: 0.55},
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
	fmt.Fprintln(table, "what\tis\tunit\tgoal\tmet")
	for _, g := range goals {
		fmt.Fprintf(table, "%s\t%.3g\t%s\t%s\t%s\n", g.What, g.Is, g.Unit, g.bound(), g.met())
	}
	return table.Flush()
}
