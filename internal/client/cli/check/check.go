// Package check finds present and coming problems of a server, of its certificates, and
// of the caller's own credential.
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
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/store/datadir"
)

// Result is the result of a check.
type Result string

// The results. NotChecked reports that the caller lacks the rights for a check.
const (
	OK         Result = "ok"
	Warning    Result = "warning"
	Failed     Result = "failed"
	NotChecked Result = "not checked"
)

// Check is the result of one check.
type Check struct {
	Topic  string `json:"topic"`
	Result Result `json:"result"`
	Text   string `json:"text"`
	// Next holds the next steps, in lines. A line can be a command.
	Next []string `json:"next,omitempty"`

	// cause names the cause of a problem. A check is shown together with an earlier check
	// that found the same cause. isCause is true for the check that finds the cause.
	cause   string
	isCause bool
}

// Report contains all checks, in the order of their topics.
type Report struct {
	Checks []Check `json:"checks"`
	// Count is the number of checks by result.
	Count map[Result]int `json:"count"`

	// causes holds the indexes of checks that have found a cause; consequences holds the
	// texts of checks that are shown with them.
	causes       map[string]int
	consequences map[int][]string
}

// Config selects the checks.
type Config struct {
	// Client is the configuration of the connection; ClientErr is the reason if it is
	// unknown.
	Client    *rest.Config
	ClientErr error
	// Line returns a command line of certplane for the same server.
	Line func(words ...string) string
	// Controllers is the namespace of the controllers of a cluster.
	Controllers string
	// Manifests returns the objects to install in a cluster. If it is set, Run checks
	// whether the cluster is ready for them, instead of checking an installation.
	Manifests func() ([]runtime.Object, error)
	// Dir is the data folder of the server on this machine; empty for a server on
	// another one.
	Dir datadir.Dir
	// Backups is the folder with the server's backups. NewestBackup returns the time of
	// the newest backup in it, or the zero time if it contains none.
	Backups      string
	NewestBackup func(dir string) (time.Time, error)
	Now          func() time.Time
}

// topic is a group of checks.
type topic struct {
	name  string
	check func(context.Context, *checker) []Check
}

// topics are the checks of a server, in the order of the report.
var topics = []topic{
	{"Server", kindsServed},
	{"Server", store},
	{"Credential", credential},
	{"Installation", installation},
	{"Installation", otherLeases},
	{"Admission", dryRuns},
	{"Signers", signers},
	{"Issuers", issuers},
	{"Trust bundles", trustBundles},
	{"Trust bundles", joinedBundles},
	{"ACME server", acmeEndpoints},
	{"Requests", requests},
	{"Certificates", certificates},
	{"Certificates", unrequested},
	{"Webhooks", webhooks},
	{"Hosts", allHosts},
	{"Inventory", inventory},
	{"Revocation", revocations},
}

// topicsBefore are the checks of a cluster before an installation.
var topicsBefore = []topic{
	{"Credential", credential},
	{"API", apis},
	{"Installation", rightsToInstall},
	{"Others", others},
	{"Namespace", namespaces},
}

// checker holds the inputs of checks.
type checker struct {
	Config
	api explain.API
	now time.Time
	// servesCertplane is set if the server is "certplane serve".
	servesCertplane bool
}

// enough is the time limit for checking a server.
const enough = 10 * time.Second

// Run makes all checks. It returns an error only if it cannot start. If the server is not
// ready, Run makes no further checks.
func Run(parent context.Context, cfg Config) (Report, error) {
	ctx, cancel := context.WithTimeout(parent, enough)
	defer cancel()
	c := &checker{Config: cfg, now: cfg.Now()}
	if cfg.Client != nil {
		c.Client = rest.CopyConfig(cfg.Client)
		c.Client.Timeout = enough // for calls of clients that take no context
	}
	report := NewReport()
	if cfg.Dir != "" {
		report.add("Data folder", folder(c))
	}
	checks, reached := server(ctx, c)
	report.add("Server", checks)
	if !reached {
		return report, nil
	}
	var err error
	if c.api, err = explain.Connect(c.Client); err != nil {
		return report, err
	}
	todo := topics
	if cfg.Manifests != nil {
		todo = topicsBefore
	}
	found := make([]chan []Check, len(todo))
	for i, t := range todo {
		found[i] = make(chan []Check, 1) // discovery takes no context: it may end later
		go func() { found[i] <- t.check(ctx, c) }()
	}
	for i, t := range todo {
		select {
		case checks := <-found[i]:
			report.add(t.name, checks)
		case <-ctx.Done():
			report.add(t.name, noAnswer(t.name))
		}
	}
	report.addConsequences()
	return report, parent.Err()
}

// NewReport returns a report without checks.
func NewReport() Report {
	return Report{Checks: []Check{}, Count: map[Result]int{}, causes: map[string]int{}, consequences: map[int][]string{}}
}

// Add adds checks of a topic. Checks of one topic must be added one after the other.
func (r *Report) Add(topic string, checks ...Check) { r.add(topic, checks) }

func (r *Report) add(topic string, checks []Check) {
	for _, c := range checks {
		c.Topic = topic
		c.Text = print.Printable(c.Text) // hosts and requesters write parts of it
		if at, known := r.causes[c.cause]; known && c.Result != OK {
			r.consequences[at] = append(r.consequences[at], c.Text)
			continue
		}
		if c.isCause {
			r.causes[c.cause] = len(r.Checks)
		}
		r.Checks = append(r.Checks, c)
		r.Count[c.Result]++
	}
}

// addConsequences adds the consequences to the checks of their causes.
func (r *Report) addConsequences() {
	const most = 3
	for at, texts := range r.consequences {
		line := "Because of it: " + strings.Join(texts[:min(most, len(texts))], "; ")
		if more := len(texts) - most; more > 0 {
			line += fmt.Sprintf("; and %d more", more)
		}
		r.Checks[at].Next = append(r.Checks[at].Next, line)
	}
}

// Summary returns the number of checks by result, as text.
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

// Text returns the report as text.
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

// unread returns the check for objects that could not be read: none if the server does
// not serve them.
func unread(what string, err error) []Check {
	switch {
	case errors.Is(err, certmanager.ErrNoResource) || served.IsMissing(err):
		return nil
	case apierrors.IsForbidden(err):
		return []Check{{Result: NotChecked, Text: "you may not list " + what}}
	}
	if isLate(err) {
		return noAnswer(what)
	}
	return []Check{{Result: Failed, Text: fmt.Sprintf("listing %s: %v", what, err)}}
}

func noAnswer(what string) []Check {
	return []Check{{Result: Failed, Text: "the server did not answer in time to a request for " + what, Next: []string{"See its log."}, cause: "no answer", isCause: true}}
}

// isLate reports whether a call ended because the server did not answer in time.
func isLate(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || apierrors.IsTimeout(err) || strings.Contains(err.Error(), "Client.Timeout exceeded")
}

// most is the maximum number of checks of one kind to show.
const most = 10

// summed returns the failed checks, worst first and at most a few, or a check that
// reports success.
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

// late is the maximum time before its expiry at which a certificate should have been
// replaced; less for certificates with a shorter lifetime.
const late = 30 * 24 * time.Hour

// ending returns the result for a validity period. A certificate that is replaced
// automatically has more than a fifth of its lifetime left.
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

// until describes the end of a validity period.
func (c *checker) until(notAfter time.Time) string {
	day := notAfter.UTC().Format(time.DateOnly)
	if left := notAfter.Sub(c.now); left > 0 {
		return fmt.Sprintf("ends on %s, in %s", day, print.Span(left))
	}
	return fmt.Sprintf("ended on %s, %s", day, print.Ago(c.now, notAfter))
}
