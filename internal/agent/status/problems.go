package status

import (
	"strings"
	"time"
)

// Problem is something that is wrong with a host.
type Problem struct {
	// Key names what has the problem. It stays the same while Text changes.
	Key  string
	Text string
	// Waiting reports that the problem is expected to end without intervention,
	// and is not a refusal.
	Waiting bool
	// inTable reports that the table of sources shows the problem.
	inTable bool
}

// Starting is the problem of an agent that has just started.
const Starting = "the agent has no identity yet"

// Problems returns all problems, in the order of the status.
func (h Host) Problems(now time.Time) []Problem {
	var all []Problem
	add := func(key, text string) {
		if text != "" {
			all = append(all, Problem{Key: key, Text: text})
		}
	}
	if h.Start != "" {
		all = append(all, Problem{Key: "start", Text: "start: " + h.Start, Waiting: h.Start == Starting})
	}
	add("server", h.ServerProblem())
	add("identity", h.IdentityProblem(now))
	if h.Registration != "" && h.Server.Error == "" {
		add("node", "node: "+h.Registration)
	}
	if h.Manifests != "" {
		add("manifests", "manifests: "+h.Manifests)
	}
	for _, pod := range h.Pods {
		all = append(all, pod.problems(now)...)
	}
	return all
}

// ServerProblem returns why the server cannot be used; empty if it answers.
func (h Host) ServerProblem() string {
	if h.Server.Error == "" {
		return ""
	}
	return "server " + h.Server.URL + ": " + h.Server.Error
}

// IdentityProblem returns why the host cannot authenticate; empty if it can.
func (h Host) IdentityProblem(now time.Time) string {
	if end := h.Identity.NotAfter; end != nil && now.After(*end) {
		return "identity: the certificate of " + h.Identity.User + " expired at " + end.UTC().Format(time.RFC3339) +
			": give the agent a new token with --bootstrap-kubeconfig ('certplane token create' prints one)"
	}
	return ""
}

func (p Pod) problems(now time.Time) []Problem {
	var all []Problem
	name := p.Namespace + "/" + p.Name + ": "
	if p.Error != "" {
		all = append(all, Problem{Key: name, Text: name + p.Error, Waiting: p.Waiting})
	}
	for _, v := range p.Volumes {
		for _, s := range v.Sources {
			source := name + v.Name + ": " + s.Kind + " " + s.Name
			key := source + " " + s.Path
			if s.Error != "" {
				all = append(all, Problem{Key: key, Text: source + ": " + strings.ReplaceAll(s.Error, "\n", " "), Waiting: s.Waiting, inTable: true})
			}
			if s.NotAfter != nil && now.After(*s.NotAfter) {
				all = append(all, Problem{Key: key + " expired", Text: source + ": has expired", inTable: true})
			}
		}
		volume := name + "volume " + v.Name
		if v.Error != "" {
			all = append(all, Problem{Key: volume, Text: volume + ": " + v.Error})
		}
		for _, action := range v.Actions {
			all = append(all, Problem{Key: volume + " " + action.Name, Text: volume + ": " + action.Error})
		}
	}
	return all
}
