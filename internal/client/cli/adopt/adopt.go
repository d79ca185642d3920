// Package adopt replaces cert-manager or trust-manager in a cluster by certplane: it compares
// them, writes the files of the move, takes its steps forth and back, and verifies that nothing
// was issued.
package adopt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/api/served"
	"github.com/certplane/certplane/internal/client/cli/check"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/rights"
)

// Config configures a move. Its functions are called by one goroutine at a time.
type Config struct {
	// Client is the connection, with the rights of an administrator: the move reads the
	// Secrets of Certificates, but never prints or stores their content.
	Client *rest.Config
	// Program is the program to replace: cert-manager or trust-manager.
	Program string
	// Manifests returns the objects that install the controllers with a configuration file
	// in YAML. It refuses unknown fields and invalid values.
	Manifests func(config []byte) ([]runtime.Object, error)
	// Line returns a command line of certplane for the same server.
	Line func(words ...string) string
	// Out receives what Run and Back do, line by line.
	Out io.Writer
	// Ask asks the user a question, and reports whether to go on.
	Ask func(question string) (bool, error)
	// Careless means that no person reads the questions: Run then refuses to begin if
	// something is not covered.
	Careless bool
	// Watch is how long step 5 watches certplane.
	Watch time.Duration
	Now   func() time.Time
	// Sleep waits, and returns early with an error if ctx ends.
	Sleep func(ctx context.Context, d time.Duration) error
}

// Plan is the result of Read: what the program does in this cluster, and what certplane would
// do in its place. The names of its fields in JSON are stable.
type Plan struct {
	// Report contains the findings. Failed means that a part is not covered, Warning that it
	// needs attention, NotChecked that it could not be found out.
	check.Report
	Program string `json:"program"`
	// Parts are the Deployments of the program.
	Parts []Part `json:"parts"`
	// Settings are its settings that differ from cert-manager's defaults.
	Settings []Setting `json:"settings"`
	// Trusted are the bindings of its account that no part of it has installed.
	Trusted []Trusted `json:"trusted"`
	// WouldIssue, WouldWrite name the Certificates and other objects that certplane would
	// change at once, with the reason.
	WouldIssue []Change `json:"wouldIssue"`
	WouldWrite []Change `json:"wouldWrite"`
	// Configuration is the configuration of "certplane controllers" in its place.
	Configuration map[string]any `json:"configuration"`

	crts []*cmv1.Certificate
	// keepsKeys means that the program keeps keys at renewal, unless a Certificate says otherwise.
	keepsKeys bool
	before    Before
	bindings  []*unstructured.Unstructured // the copied ones
}

// Change is a change that certplane would make.
type Change struct {
	Object string `json:"object"`
	Why    string `json:"why"`
}

// reader reads one cluster.
type reader struct {
	Config
	data
	program
	api explain.API
	now time.Time
	// namespace is the namespace of certplane's controllers.
	namespace string
}

func (cfg Config) connect() (*reader, error) {
	d, err := readData()
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(d.Programs, func(p program) bool { return p.Name == cfg.Program })
	if at < 0 {
		return nil, fmt.Errorf("%q cannot be adopted: want %s or %s", cfg.Program, d.Programs[0].Name, d.Programs[1].Name)
	}
	api, err := explain.Connect(cfg.Client)
	if err != nil {
		return nil, err
	}
	return &reader{Config: cfg, data: d, program: d.Programs[at], api: api, now: cfg.Now(), namespace: rights.ClusterNamespace}, nil
}

// Read compares a program with certplane. It changes nothing, and returns an error only if the
// program is not in the cluster, or the cluster does not answer.
func Read(ctx context.Context, cfg Config) (*Plan, error) {
	m, err := cfg.connect()
	if err != nil {
		return nil, err
	}
	return m.read(ctx)
}

func (m *reader) newPlan() *Plan {
	return &Plan{
		Report: check.NewReport(), Program: m.Name, Parts: []Part{}, Settings: []Setting{}, Trusted: []Trusted{}, WouldIssue: []Change{}, WouldWrite: []Change{}, Configuration: map[string]any{},
		before: Before{Program: m.Name, Time: metav1.NewTime(m.now), Certificates: map[string]Fingerprint{}, Objects: map[string]string{}},
	}
}

func (m *reader) read(ctx context.Context) (*Plan, error) {
	p := m.newPlan()
	looks := []func(context.Context, *Plan) error{m.findParts, m.versions, m.mapSettings, m.kinds, m.trusted}
	looks = append(looks, m.comparisons()...)
	if m.Name == "cert-manager" {
		looks = append(looks, m.usage, m.wouldShim)
	}
	for _, look := range looks {
		if err := look(ctx, p); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// comparisons look at what the move must not change.
func (m *reader) comparisons() []func(context.Context, *Plan) error {
	if m.Name == "cert-manager" {
		return []func(context.Context, *Plan) error{m.readCertificates, m.wouldInject}
	}
	return []func(context.Context, *Plan) error{m.targets}
}

// Covered reports whether certplane does all that the program does in this cluster, and whether
// all of it is known.
func (p *Plan) Covered() (covered, known bool) {
	return p.Count[check.Failed] == 0, p.Count[check.NotChecked] == 0
}

func (p *Plan) ok(topic, format string, args ...any) {
	p.Add(topic, check.Check{Result: check.OK, Text: fmt.Sprintf(format, args...)})
}

func (p *Plan) warn(topic, text string, next ...string) {
	p.Add(topic, check.Check{Result: check.Warning, Text: text, Next: next})
}

func (p *Plan) fail(topic, text string, next ...string) {
	p.Add(topic, check.Check{Result: check.Failed, Text: text, Next: next})
}

// unread notes that objects could not be read, and reports whether the move can be planned
// without them. A kind that the cluster does not have is not in use.
func (p *Plan) unread(topic, what string, err error) (skip bool, failed error) {
	switch {
	case err == nil:
		return false, nil
	case errors.Is(err, certmanager.ErrNoResource), served.IsMissing(err):
		return true, nil
	case apierrors.IsForbidden(err):
		p.Add(topic, check.Check{Result: check.NotChecked, Text: "you may not read " + what, Next: []string{"Run this command as an administrator of the cluster."}})
		return true, nil
	}
	return true, fmt.Errorf("reading %s: %w", what, err)
}

// list returns the objects of a kind, or nothing if they cannot be read.
func (m *reader) list(ctx context.Context, p *Plan, topic string, kind schema.GroupKind) ([]unstructured.Unstructured, error) {
	found, err := explain.ListAnyVersion(ctx, m.api, kind)
	_, err = p.unread(topic, kind.String(), err)
	return found, err
}

// listAs is list for typed objects.
func listAs[T any](ctx context.Context, m *reader, p *Plan, topic string, kind schema.GroupKind) ([]*T, error) {
	found, err := m.list(ctx, p, topic, kind)
	typed := make([]*T, len(found))
	for i := range found {
		typed[i] = new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found[i].Object, typed[i]); err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", kind, nameOf(&found[i]), err)
		}
	}
	return typed, err
}

// nameOf returns NAMESPACE/NAME, or the name of an object without a namespace.
func nameOf(o metav1.Object) string {
	if o.GetNamespace() == "" {
		return o.GetName()
	}
	return o.GetNamespace() + "/" + o.GetName()
}

// most is how many names of objects a text contains.
const most = 10

// some joins sorted names, at most a few.
func some(names []string) string {
	slices.Sort(names)
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

// Text returns the plan as text.
func (p *Plan) Text() string {
	text := p.Report.Text()
	if covered, _ := p.Covered(); covered {
		return text + fmt.Sprintf("\ncertplane can take the place of %s: %s would be issued, %s written.\n", p.Program,
			print.Number(len(p.WouldIssue), "certificate"), print.Number(len(p.WouldWrite), "object"))
	}
	return text + fmt.Sprintf("\ncertplane does not cover all that %s does here: see the findings that failed.\n", p.Program)
}
