package status

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
	apievents "github.com/certplane/certplane/internal/api/events"
	"github.com/certplane/certplane/internal/cli/advice"
	"github.com/certplane/certplane/internal/cli/exit"
	"github.com/certplane/certplane/internal/cli/shell"
	"github.com/certplane/certplane/internal/policy/issuance"
)

// facts are what the API tells of a Certificate. A part that is nil is not there,
// or its problem says why it is not known.
type facts struct {
	Config
	now         time.Time
	certificate *cmv1.Certificate
	events      events

	issuer        cmv1.GenericIssuer // nil too if it is of another group
	issuerProblem string
	issuerEvents  events
	// near is the other kind, if it has an issuer of the name where this one does not.
	near string

	secret        *corev1.Secret
	secretProblem string

	request        *cmv1.CertificateRequest // for the certificate after the present one
	requestProblem string
	requestEvents  events
}

// events are those of an object, the oldest first.
type events struct {
	list    []eventsv1.Event
	problem string
}

func gather(ctx context.Context, c client.Client, cfg Config) (*facts, error) {
	f := &facts{Config: cfg, now: cfg.Now(), certificate: &cmv1.Certificate{}}
	err := c.Get(ctx, client.ObjectKey{Namespace: cfg.Namespace, Name: cfg.Name}, f.certificate)
	if apierrors.IsNotFound(err) {
		return nil, exit.WithNext(fmt.Errorf("there is no Certificate %q in namespace %q", cfg.Name, cfg.Namespace),
			"To see which there are:", "  "+shell.Line(f.command("kubectl", "get", "certificates", "-A")...))
	}
	if err != nil {
		return nil, advice.On("reading the Certificate", err)
	}
	for _, part := range []func(context.Context, client.Client) error{f.findEvents, f.findIssuer, f.findSecret, f.findRequest} {
		if err := part(ctx, c); err != nil {
			return nil, advice.On("finding out about the Certificate", err)
		}
	}
	return f, nil
}

// command is how the user calls certplane for the same server.
func (f *facts) command(words ...string) []string {
	return append(append(slices.Clone(f.Certplane[:1]), words...), f.Certplane[1:]...)
}

func (f *facts) findEvents(ctx context.Context, c client.Client) (err error) {
	f.events, err = eventsOf(ctx, c, f.certificate, f.Namespace)
	return err
}

func (f *facts) findIssuer(ctx context.Context, c client.Client) error {
	ref := f.certificate.Spec.IssuerRef
	if ref.Group != "" && ref.Group != certmanager.Group {
		f.issuerProblem = "it is of the group " + ref.Group + ": see there"
		return nil
	}
	issuer, err := certmanager.NewIssuer(cmp.Or(ref.Kind, cmv1.IssuerKind))
	if err != nil {
		f.issuerProblem = err.Error()
		return nil
	}
	key, namespace := client.ObjectKey{Namespace: f.Namespace, Name: ref.Name}, f.Namespace
	if ref.Kind == cmv1.ClusterIssuerKind {
		key.Namespace, namespace = "", metav1.NamespaceDefault // where events of what is in no namespace are
	}
	if f.issuerProblem, err = read(ctx, c, key, issuer); err != nil || f.issuerProblem != "" {
		return cmp.Or(err, f.findNear(ctx, c))
	}
	f.issuer = issuer
	f.issuerEvents, err = eventsOf(ctx, c, issuer, namespace)
	return err
}

// findNear looks for an issuer of the other kind: one is easily named for the
// other.
func (f *facts) findNear(ctx context.Context, c client.Client) error {
	if f.issuerProblem != absent {
		return nil
	}
	kind, key := cmv1.ClusterIssuerKind, client.ObjectKey{Name: f.certificate.Spec.IssuerRef.Name}
	if f.certificate.Spec.IssuerRef.Kind == cmv1.ClusterIssuerKind {
		kind, key.Namespace = cmv1.IssuerKind, f.Namespace
	}
	other, err := certmanager.NewIssuer(kind)
	if err != nil {
		return err
	}
	if problem, err := read(ctx, c, key, other); err != nil || problem != "" {
		return err
	}
	f.near = kind
	return nil
}

func (f *facts) findSecret(ctx context.Context, c client.Client) (err error) {
	found := &corev1.Secret{}
	f.secretProblem, err = read(ctx, c, client.ObjectKey{Namespace: f.Namespace, Name: f.certificate.Spec.SecretName}, found)
	if err == nil && f.secretProblem == "" {
		f.secret = found
	}
	return err
}

// findRequest looks for the request for the next certificate.
func (f *facts) findRequest(ctx context.Context, c client.Client) error {
	list := &cmv1.CertificateRequestList{}
	err := c.List(ctx, list, client.InNamespace(f.Namespace))
	if apierrors.IsForbidden(err) {
		f.requestProblem = "you may not list CertificateRequests"
		return nil
	}
	if err != nil {
		return err
	}
	for i := range list.Items {
		cr := &list.Items[i]
		revision, ok := issuance.Revision(cr)
		if ok && revision == issuance.NextRevision(f.certificate) && metav1.IsControlledBy(cr, f.certificate) {
			f.request = cr
			f.requestEvents, err = eventsOf(ctx, c, cr, f.Namespace)
			return err
		}
	}
	return nil
}

// absent is the problem of what is not there.
const absent = "it does not exist"

// read reads an object; a problem is why that could not be done that is no
// failure.
func read(ctx context.Context, c client.Client, key client.ObjectKey, into client.Object) (problem string, err error) {
	switch err := c.Get(ctx, key, into); {
	case apierrors.IsNotFound(err):
		return absent, nil
	case apierrors.IsForbidden(err):
		return "you may not read it", nil
	default:
		return "", err
	}
}

func eventsOf(ctx context.Context, c client.Client, object client.Object, namespace string) (events, error) {
	list := &eventsv1.EventList{}
	err := c.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{"regarding.uid": string(object.GetUID())})
	if apierrors.IsForbidden(err) {
		return events{problem: "you may not list Events"}, nil
	}
	if err != nil {
		return events{}, fmt.Errorf("listing Events: %w", err)
	}
	slices.SortStableFunc(list.Items, func(a, b eventsv1.Event) int {
		return cmp.Or(apievents.LastSeen(a).Compare(apievents.LastSeen(b)), strings.Compare(a.Reason, b.Reason))
	})
	return events{list: list.Items}, nil
}
