// Package check finds out what does not work, or soon will not, of a server, of what it
// issues, and of the caller's own credential.
package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/api/served"
	"github.com/certplane/certplane/internal/cli/print"
	"github.com/certplane/certplane/internal/datadir"
	"github.com/certplane/certplane/internal/explain"
)

// Result is the result of a check.
type Result string

// The results. NotChecked says that the caller may not find it out.
const (
	OK         Result = "ok"
	Warning    Result = "warning"
	Failed     Result = "failed"
	NotChecked Result = "not checked"
)

// Check is what was found out about one thing.
type Check struct {
	Topic  string `json:"topic"`
	Result Result `json:"result"`
	Text   string `json:"text"`
	// Next is what to do, in lines. A line may be a command to type.
	Next []string `json:"next,omitempty"`
}

// Report has all checks, in the order of their topics.
type Report struct {
	Checks []Check `json:"checks"`
	// Count is how many checks have each result.
	Count map[Result]int `json:"count"`
}

// Config says what to check.
type Config struct {
	// Client is how the server is reached; ClientErr is why it is not known.
	Client    *rest.Config
	ClientErr error
	// Line returns a command line of certplane for the same server.
	Line func(words ...string) string
	// Manifests returns the objects that are to be installed in a cluster. If it is
	// set, the cluster is checked for them instead of for what is installed.
	Manifests func() ([]runtime.Object, error)
	// Dir is the data folder of the server on this machine; empty for a server on
	// another one.
	Dir datadir.Dir
	// Backups is the folder of the server's backups, and NewestBackup returns when the
	// newest one in it was made, the zero time if there is none.
	Backups      string
	NewestBackup func(dir string) (time.Time, error)
	Now          func() time.Time
}

// topic is a group of checks.
type topic struct {
	name  string
	check func(context.Context, *checker) []Check
}

// topics are the checks of a server, in the order in which they are shown.
var topics = []topic{
	{"Credential", credential},
	{"Signers", signers},
	{"Issuers", issuers},
	{"Trust bundles", trustBundles},
	{"ACME server", acmeEndpoints},
	{"Requests", requests},
	{"Certificates", certificates},
	{"Webhooks", webhooks},
	{"Hosts", allHosts},
	{"Inventory", inventory},
}

// topicsBefore are the checks of a cluster before an installation.
var topicsBefore = []topic{
	{"Credential", credential},
	{"API", apis},
	{"Installation", rightsToInstall},
	{"Others", others},
	{"Namespace", namespaces},
}

// checker has what checks need.
type checker struct {
	Config
	api explain.API
	now time.Time
	// servesCertplane is set if the server is "certplane serve".
	servesCertplane bool
}

// Run checks everything. It returns an error only if it cannot begin.
func Run(ctx context.Context, cfg Config) (Report, error) {
	c := &checker{Config: cfg, now: cfg.Now()}
	report := Report{Checks: []Check{}, Count: map[Result]int{}}
	if cfg.Dir != "" {
		report.add("Data folder", folder(c))
	}
	checks, reached := server(ctx, c)
	report.add("Server", checks)
	if !reached {
		return report, nil
	}
	var err error
	if c.api, err = explain.Connect(cfg.Client); err != nil {
		return report, err
	}
	todo := topics
	if cfg.Manifests != nil {
		todo = topicsBefore
	}
	for _, t := range todo {
		report.add(t.name, t.check(ctx, c))
	}
	return report, ctx.Err()
}

func (r *Report) add(topic string, checks []Check) {
	for _, c := range checks {
		c.Topic = topic
		c.Text = print.Printable(c.Text) // hosts and requesters write parts of it
		r.Checks = append(r.Checks, c)
		r.Count[c.Result]++
	}
}

// Summary says how many checks have each result.
func (r Report) Summary() string {
	var parts []string
	for _, result := range []Result{OK, Warning, Failed, NotChecked} {
		switch n := r.Count[result]; {
		case n > 1 && result == Warning:
			parts = append(parts, fmt.Sprintf("%d warnings", n))
		case n > 0:
			parts = append(parts, fmt.Sprintf("%d %s", n, result))
		}
	}
	return strings.Join(parts, ", ")
}

// Text returns the report for people.
func (r Report) Text() string {
	var page print.Page
	topic := ""
	for _, c := range r.Checks {
		if c.Topic != topic {
			if topic != "" {
				page.WriteString("\n")
			}
			topic = c.Topic
			page.Line(topic)
		}
		page.Line(fmt.Sprintf("  %-11s  %s", c.Result, c.Text))
		for _, line := range c.Next {
			page.Line(strings.Repeat(" ", 15) + line)
		}
	}
	page.WriteString("\n" + r.Summary() + "\n")
	return page.String()
}

func ok(format string, args ...any) []Check {
	return []Check{{Result: OK, Text: fmt.Sprintf(format, args...)}}
}

// unread returns the check of what could not be read: nothing, if the server does not
// have it.
func unread(what string, err error) []Check {
	switch {
	case errors.Is(err, certmanager.ErrNoResource) || served.IsMissing(err):
		return nil
	case apierrors.IsForbidden(err):
		return []Check{{Result: NotChecked, Text: "you may not list " + what}}
	}
	return []Check{{Result: Failed, Text: fmt.Sprintf("listing %s: %v", what, err)}}
}

// most is how many checks of one kind are shown.
const most = 10

// summed returns the checks of what does not work, the worst first and not too many, or
// that all of it works.
func summed(bad []Check, allWell string, args ...any) []Check {
	if len(bad) == 0 {
		return ok(allWell, args...)
	}
	slices.SortStableFunc(bad, func(a, b Check) int { return cmp.Compare(severity(b.Result), severity(a.Result)) })
	if len(bad) > most {
		more := Check{Result: bad[most].Result, Text: fmt.Sprintf("%d more like these", len(bad)-most)}
		bad = append(bad[:most:most], more)
	}
	return bad
}

func severity(r Result) int { return slices.Index([]Result{OK, NotChecked, Warning, Failed}, r) }

// number returns a number of things.
func number(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// late is how long before its end a certificate should have been replaced, at most; less
// for those with a shorter life.
const late = 30 * 24 * time.Hour

// ending returns the result for something that ends. What is replaced automatically has
// more time left than a fifth of its life.
func (c *checker) ending(notBefore, notAfter time.Time) Result {
	left := notAfter.Sub(c.now)
	switch {
	case left <= 0:
		return Failed
	case left < min(late, notAfter.Sub(notBefore)/5):
		return Warning
	}
	return OK
}

// until says when something ends.
func (c *checker) until(notAfter time.Time) string {
	day := notAfter.UTC().Format(time.DateOnly)
	if left := notAfter.Sub(c.now); left > 0 {
		return fmt.Sprintf("ends on %s, in %s", day, print.Span(left))
	}
	return fmt.Sprintf("ended on %s, %s", day, print.Ago(c.now, notAfter))
}
