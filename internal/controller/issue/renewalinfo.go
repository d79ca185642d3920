package issue

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrl "sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/issuance"
	"github.com/certplane/certplane/internal/process/worker"
	"github.com/certplane/certplane/internal/tenant/fairshare"
)

const (
	// askers is the maximum number of concurrent queries to CAs, and askersPerNamespace the
	// maximum for the Certificates of one namespace: a namespace whose CA is slow does not
	// keep others from asking theirs.
	askers             = 8
	askersPerNamespace = 2
	// askTimeout is the time limit for one answer.
	askTimeout = 30 * time.Second
	// askLater is how long a Certificate waits whose namespace asks for too many
	// others.
	askLater = 2 * time.Second
	// silentIssuerFor is how long an issuer without renewal information is not checked
	// again. It may become one that has.
	silentIssuerFor = time.Hour
	// maxSilentIssuers is the maximum number of such issuers that are remembered.
	maxSilentIssuers = 10000
)

// asksCAs reports whether the controller queries CAs for renewal times.
func (c *controller) asksCAs() bool { return c.Settings.RenewalInformation && c.RenewalInfo != nil }

// asker asks CAs when certificates should be renewed (RFC 9773) and writes the
// answers into the status of Certificates. It does nothing else, and nothing
// waits for it: CAs can be slow.
type asker struct {
	*reconciler
	places *fairshare.Budget
	silent silentIssuers
}

func (r *reconciler) newAsker(ctx context.Context) (ctrl.Controller, error) {
	a := &asker{
		reconciler: r, places: fairshare.NewBudget(0, askersPerNamespace, 0),
		silent: silentIssuers{all: map[certmanager.Signer]time.Time{}},
	}
	return worker.New(ctx, "certificates-renewal-information", a, worker.Options{
		Concurrency: askers, FirstPause: firstPause, LastPause: lastPause, Timeout: passTimeout,
	}, source.Kind(r.objects, client.Object(&cmv1.Certificate{}), &handler.EnqueueRequestForObject{}))
}

// Reconcile asks the CA of one Certificate, if that is due.
func (a *asker) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	crt := &cmv1.Certificate{}
	if err := a.objects.Get(ctx, key.NamespacedName, crt); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	who, ok := issuerOf(crt)
	now := a.Clock.Now()
	at := issuance.AskAt(crt, now)
	if crt.Status.ACME == nil && at.Equal(now) {
		at = pki.Later(at, a.silent.until(who, now))
	}
	if !ok || at.IsZero() || at.After(now) {
		return reconcile.Result{RequeueAfter: remaining(at, now)}, nil
	}
	tenant := fairshare.Tenant{Name: key.Namespace}
	if !a.places.Take(tenant, 1) {
		return reconcile.Result{RequeueAfter: askLater}, nil
	}
	defer a.places.Give(tenant, 1)
	switch again, err := a.ask(ctx, crt, who); {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: conflictPause}, nil
	case worker.IsTooLate(err):
		return reconcile.Result{}, nil
	default:
		return reconcile.Result{RequeueAfter: remaining(again, a.Clock.Now())}, err
	}
}

// remaining returns the time until at; 0 if at is zero.
func remaining(at, now time.Time) time.Duration {
	if at.IsZero() {
		return 0
	}
	return max(at.Sub(now), time.Millisecond)
}

// ask asks the CA of a Certificate and writes the answer into its status. again
// is when to ask again; zero means after a change of the Certificate.
func (a *asker) ask(ctx context.Context, crt *cmv1.Certificate, who certmanager.Signer) (again time.Time, err error) {
	issuer, err := a.issuer(ctx, who)
	if err != nil {
		return time.Time{}, err
	}
	if issuer == nil {
		return a.Clock.Now().Add(silentIssuerFor), nil
	}
	cached, err := a.relatives(ctx, crt)
	if err != nil {
		return time.Time{}, err
	}
	t, err := a.look(ctx, crt, cached)
	if err != nil {
		return time.Time{}, err
	}
	leaf := issuance.AskAbout(t.Situation, t.now)
	if leaf == nil {
		return time.Time{}, nil // another worker changes that, and says so in the status
	}
	answer, err := a.answer(ctx, issuer, leaf)
	if err != nil {
		return time.Time{}, err
	}
	t.now = a.Clock.Now()
	if answer.IsNone() {
		again = t.now.Add(silentIssuerFor)
		a.silent.add(who, again)
	}
	if err := a.tell(ctx, t, leaf, answer); err != nil {
		return time.Time{}, err
	}
	return pki.Later(again, issuance.AskAt(t.Certificate, t.now)), nil
}

// answer returns the CA's renewal information for a certificate. Its error is one of the
// API.
func (a *asker) answer(ctx context.Context, issuer cmv1.GenericIssuer, leaf *x509.Certificate) (issuance.Suggestion, error) {
	certID := pki.CertID(leaf)
	if issuer.GetSpec().ACME == nil || certID == "" {
		return issuance.Suggestion{}, nil
	}
	log.FromContext(ctx).V(1).Info("Asking the CA when the certificate should be renewed", "certID", certID)
	limited, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	info, err := a.RenewalInfo(limited, issuer, certID)
	if ctx.Err() != nil {
		return issuance.Suggestion{}, fmt.Errorf("asking for renewal information: %w", ctx.Err())
	}
	answer := issuance.Suggestion{Info: info, Err: err}
	if problem := new(rfc8555.Problem); errors.As(err, &problem) {
		answer.Until = problem.RetryAfter
	}
	return answer, nil
}

// tell writes an answer into the status, with what follows from it.
func (a *asker) tell(ctx context.Context, t *pass, leaf *x509.Certificate, answer issuance.Suggestion) error {
	before := t.Certificate
	t.setStatus(readiness, func(crt *cmv1.Certificate) {
		issuance.Suggest(crt, leaf, answer, t.now, a.Random)
		answered := t.Situation
		answered.Certificate = crt
		issuance.SetReadiness(crt, issuance.Ready(answered, t.now), t.now)
	})
	what, isError := issuance.SuggestionFinding(before, t.Certificate)
	if isError {
		t.tellWarning(readiness, what)
	} else {
		t.tellNormal(readiness, what)
	}
	return t.flush(ctx)
}

// issuer returns an issuer; nil if it does not exist.
func (a *asker) issuer(ctx context.Context, who certmanager.Signer) (cmv1.GenericIssuer, error) {
	issuer, err := certmanager.NewIssuer(who.Kind)
	if err != nil {
		return nil, nil // the API refuses such Certificates
	}
	err = a.Client.Get(ctx, types.NamespacedName{Namespace: who.Namespace, Name: who.Name}, issuer)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the %s %q: %w", who.Kind, who.Name, err)
	}
	return issuer, nil
}

// issuerOf returns the issuer that a Certificate refers to; ok is false for those
// of other programs.
func issuerOf(crt *cmv1.Certificate) (who certmanager.Signer, ok bool) {
	ref := crt.Spec.IssuerRef
	who = certmanager.Signer{Kind: certmanager.IssuerKind(ref), Name: ref.Name}
	if who.Kind == cmv1.IssuerKind {
		who.Namespace = crt.Namespace
	}
	return who, certmanager.IssuerGroup(ref) == certmanager.Group
}

// silentIssuers are the issuers without renewal information, with the time of their next
// check. It is safe for concurrent use.
type silentIssuers struct {
	mu  sync.Mutex
	all map[certmanager.Signer]time.Time
}

// until returns until when an issuer is silent.
func (s *silentIssuers) until(who certmanager.Signer, now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	until := s.all[who]
	if until.Sub(now) > silentIssuerFor { // the clock was wrong
		return time.Time{}
	}
	return until
}

func (s *silentIssuers) add(who certmanager.Signer, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for any := range s.all {
		if len(s.all) < maxSilentIssuers {
			break
		}
		delete(s.all, any)
	}
	s.all[who] = until
}
