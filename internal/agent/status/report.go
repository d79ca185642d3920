package status

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"
)

// Report is the status of a host for programs. Later versions may add fields;
// existing fields stay and keep their meaning.
type Report struct {
	Host
	// Running reports whether an agent works now; not there if the reader may not
	// know.
	Running *bool `json:"running,omitempty"`
	// Problems is all that is wrong. It is empty if all is well.
	Problems []string `json:"problems"`
}

// NewReport reports the problems of a host. An agent that ends when all files
// exist need not run.
func NewReport(host Host, running *bool, now time.Time) Report {
	problems := []string{}
	if running != nil && !*running && !host.Once {
		problems = append(problems, "the agent is not running: this is its last report")
	}
	for _, problem := range host.Problems(now) {
		problems = append(problems, problem.Text)
	}
	return Report{Host: host, Running: running, Problems: problems}
}

// Text returns the report for people: the host's identity and server, one line
// for each source, and below them the other problems.
func (r Report) Text(now time.Time) string {
	var out strings.Builder
	r.header(&out, now)
	table := printers.GetNewTabWriter(&out)
	fmt.Fprintln(table, "NAMESPACE\tPOD\tVOLUME\tSOURCE\tSTATE\tEXPIRES\tREFRESH\tLAST ERROR")
	for _, pod := range r.Pods {
		for _, v := range pod.Volumes {
			for _, s := range v.Sources {
				fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", pod.Namespace, pod.Name, v.Name,
					s.Kind+" "+s.Name, stateOf(s), relativeTime(s.NotAfter, now), relativeTime(s.RefreshAt, now), orNone(s.Error))
			}
		}
	}
	_ = table.Flush() // into memory
	shown := map[string]bool{}
	for _, problem := range r.Host.Problems(now) {
		shown[problem.Text] = problem.inTable
	}
	for _, problem := range r.Problems {
		if !shown[problem] {
			fmt.Fprintf(&out, "\n%s\n", problem)
		}
	}
	return out.String()
}

func (r Report) header(out *strings.Builder, now time.Time) {
	table := printers.GetNewTabWriter(out)
	server := orNone(r.Server.URL)
	if r.Server.Error != "" {
		server += ", does not answer"
	}
	if r.Server.LastContact != nil {
		server += ", last contact " + relativeTime(r.Server.LastContact, now)
	}
	identity := orNone(r.Identity.User)
	if r.Identity.NotAfter != nil {
		identity += ", certificate expires " + relativeTime(r.Identity.NotAfter, now)
	}
	fmt.Fprintf(table, "Node:\t%s\nServer:\t%s\nIdentity:\t%s\n", r.Node, server, identity)
	_ = table.Flush() // into memory
	fmt.Fprintln(out)
}

func stateOf(s Source) string {
	switch {
	case s.State != "":
		return s.State
	case s.Ready:
		return "ready"
	}
	return "missing"
}

func relativeTime(t *time.Time, now time.Time) string {
	switch {
	case t == nil:
		return "-"
	case t.After(now):
		return "in " + duration.HumanDuration(t.Sub(now))
	}
	return duration.HumanDuration(now.Sub(*t)) + " ago"
}

func orNone(text string) string {
	if text == "" {
		return "-"
	}
	return strings.ReplaceAll(text, "\n", " ")
}
