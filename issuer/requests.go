package issuer

import (
	"context"
	"errors"
	"fmt"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/worker"
)

const (
	// patience is how long a request may wait for its approval before an Event
	// says so: most are approved at once.
	patience = 10 * time.Second
	// conflictPause is when to look again at what somebody else has changed: the
	// cache has it by then.
	conflictPause = 500 * time.Millisecond
)

// requests answers CertificateRequests.
type requests struct{ *controller }

// workOnRequests answers CertificateRequests until ctx ends.
func (c *controller) workOnRequests(ctx context.Context) error {
	signing, err := worker.New(ctx, "certificaterequests-"+c.Name, requests{c}, worker.Options{
		Concurrency: c.Concurrency, FirstPause: firstPause, LastPause: lastPause,
	})
	if err != nil {
		return err
	}
	watches := []source.Source{
		source.Kind[client.Object](c.cache, &cmv1.CertificateRequest{}, &handler.EnqueueRequestForObject{}, c.due()),
	}
	for _, k := range c.kinds {
		asking := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, issuer client.Object) []reconcile.Request {
			return c.asking(ctx, who{k, client.ObjectKeyFromObject(issuer)})
		})
		watches = append(watches, source.Kind[client.Object](c.cache, k.new(), asking, changesReadiness))
	}
	for _, watch := range watches {
		if err := signing.Watch(watch); err != nil {
			return err
		}
	}
	return signing.Start(ctx)
}

// due keeps out of the queue what there is nothing to do for, and what this
// controller writes itself: a request that waits would never wait else.
func (c *controller) due() predicate.Predicate {
	step := func(o client.Object) step {
		cr, ok := o.(*cmv1.CertificateRequest)
		if !ok {
			return stepNone
		}
		if _, ours := c.kinds.referred(cr.Spec.IssuerRef, cr.Namespace); !ours {
			return stepNone
		}
		return stepOf(cr)
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return step(e.Object) != stepNone },
		UpdateFunc: func(e event.UpdateEvent) bool {
			now := step(e.ObjectNew)
			return now != stepNone && (now != step(e.ObjectOld) || e.ObjectNew.GetUID() != e.ObjectOld.GetUID())
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

// changesReadiness lets through what tells an issuer's requests something new.
var changesReadiness = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(Issuer)
		after, alsoOK := e.ObjectNew.(Issuer)
		if !ok || !alsoOK {
			return false
		}
		_, was := findIssuer(before, who{})
		_, is := findIssuer(after, who{})
		return was != is || !is && readyMessage(before) != readyMessage(after)
	},
}

func readyMessage(issuer Issuer) string {
	if ready := readyOf(issuer); ready != nil {
		return ready.Message
	}
	return ""
}

// asking are the requests that wait for a certificate of an issuer.
func (c *controller) asking(ctx context.Context, w who) []reconcile.Request {
	list := &cmv1.CertificateRequestList{}
	if err := c.cache.List(ctx, list, client.InNamespace(w.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Cannot list the requests that may wait for an issuer; their back-off brings them back")
		return nil
	}
	var waiting []reconcile.Request
	for i := range list.Items {
		cr := &list.Items[i]
		if of, ours := c.kinds.referred(cr.Spec.IssuerRef, cr.Namespace); ours && of == w && stepOf(cr) == stepSign {
			waiting = append(waiting, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(cr)})
		}
	}
	return waiting
}

// Reconcile takes one request a step further.
func (r requests) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	cr := &cmv1.CertificateRequest{}
	if err := r.cache.Get(ctx, key.NamespacedName, cr); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	w, ours := r.kinds.referred(cr.Spec.IssuerRef, cr.Namespace)
	if !ours {
		return reconcile.Result{}, nil
	}
	switch stepOf(cr) {
	case stepDeny:
		return r.put(ctx, cr, denied)
	case stepAwait:
		return r.await(cr, w), nil
	case stepSign:
		o, err := r.answer(ctx, cr, w)
		if err != nil {
			return reconcile.Result{}, err
		}
		return r.put(ctx, cr, o)
	}
	return reconcile.Result{}, nil
}

// await tells that a request needs an approval, and who may give it: an approver
// without that right waits in silence, too.
func (r requests) await(cr *cmv1.CertificateRequest, w who) reconcile.Result {
	if wait := cr.CreationTimestamp.Add(patience).Sub(r.clock.Now()); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}
	}
	r.event(cr, corev1.EventTypeNormal, reasonAwaits, "Sign", fmt.Sprintf(
		"Not signing CertificateRequest until it is Approved: an approver needs the verb approve on signers.%s named %s/*",
		certmanager.Group, w.kind.domain()))
	return reconcile.Result{}
}

// find returns an issuer that is ready, or what to wait for. Its errors are
// those of the API.
func (c *controller) find(ctx context.Context, w who) (Issuer, outcome, error) {
	found := w.kind.new()
	err := c.cache.Get(ctx, w.NamespacedName, found)
	if apierrors.IsNotFound(err) {
		o, _ := findIssuer(nil, w)
		return nil, o, nil
	}
	if err != nil {
		return nil, outcome{}, fmt.Errorf("reading the %s %s: %w", w.kind.Kind, w.Name, err)
	}
	if o, ok := findIssuer(found, w); !ok {
		return nil, o, nil
	}
	now := c.clock.Now()
	if met, ok := c.faults.of(w, found.GetGeneration(), now); ok {
		o := decide(nil, met.err, now, now, c.RetryFor)
		o.again = met.until.Sub(now) + time.Second
		return nil, o, nil
	}
	return found, outcome{}, nil
}

// answer asks the issuer. Its errors are those of the API and go away.
func (r requests) answer(ctx context.Context, cr *cmv1.CertificateRequest, w who) (outcome, error) {
	issuer, o, err := r.find(ctx, w)
	if issuer == nil {
		return o, err
	}
	request, err := r.requestOf(cr)
	if err != nil {
		return fails(reasonInvalidRequest, "%v", err), nil
	}
	request.Issuer = issuer
	since := firstSignable(&cr.CreationTimestamp, approvedAt(cr), issuer)
	return r.ask(ctx, w, request, since), nil
}

// ask has a request signed and notes what that says of the issuer.
func (c *controller) ask(ctx context.Context, w who, request *Request, since time.Time) outcome {
	generation := request.Issuer.GetGeneration()
	chain, err := c.sign(ctx, request)
	now := c.clock.Now()
	o := decide(chain, err, since, now, c.RetryFor)
	switch v := verdictOf(err); {
	case err == nil:
		c.faults.forget(w)
	case v != nil && v.kind == notReady:
		met := c.faults.put(w, generation, err, now)
		o.again = met.until.Sub(now) + time.Second
		w.kind.blamed.add(w)
	}
	return o
}

func approvedAt(cr *cmv1.CertificateRequest) *metav1.Time {
	if approved := certmanager.RequestCondition(cr, cmv1.CertificateRequestConditionApproved); approved != nil {
		return approved.LastTransitionTime
	}
	return nil
}

// requestOf returns what a CertificateRequest asks for. Its errors are about the
// request.
func (c *controller) requestOf(cr *cmv1.CertificateRequest) (*Request, error) {
	usages, err := certmanager.Usages(cr.Spec.Usages, cr.Spec.IsCA)
	if err != nil {
		return nil, fmt.Errorf("spec.usages: %w", err)
	}
	request := &Request{
		Object: cr.DeepCopy(), PEM: cr.Spec.Request, IsCA: cr.Spec.IsCA, KeyUsage: usages.Key, ExtKeyUsage: usages.Extended,
		Requester: authenticationv1.UserInfo{Username: cr.Spec.Username, UID: cr.Spec.UID, Groups: cr.Spec.Groups},
	}
	for key, values := range cr.Spec.Extra {
		setExtra(&request.Requester, key, values)
	}
	var asked *time.Duration
	if cr.Spec.Duration != nil {
		asked = &cr.Spec.Duration.Duration
	}
	return request, errors.Join(c.setDuration(request, asked), request.parse())
}

func setExtra(user *authenticationv1.UserInfo, key string, values []string) {
	if user.Extra == nil {
		user.Extra = map[string]authenticationv1.ExtraValue{}
	}
	user.Extra[key] = values
}

// setDuration keeps to the controller's limits.
func (c *controller) setDuration(request *Request, asked *time.Duration) error {
	request.Duration = c.DefaultDuration
	if asked != nil {
		request.Duration = *asked
	}
	if c.MaxDuration > 0 {
		request.Duration = min(request.Duration, c.MaxDuration)
	}
	if request.Duration <= 0 {
		return fmt.Errorf("the duration %v is not more than zero", request.Duration)
	}
	return nil
}

// parse reads the PKCS#10 request and proves that the requester has its key.
func (r *Request) parse() error {
	csr, err := certmanager.ParseRequest(r.PEM)
	if err != nil {
		return fmt.Errorf("reading the certificate request: %w", err)
	}
	if err := pki.VerifyRequest(csr); err != nil {
		return fmt.Errorf("verifying the certificate request: %w", err)
	}
	r.CSR = csr
	return nil
}

// put writes an outcome, unless the request has it already.
func (r requests) put(ctx context.Context, cr *cmv1.CertificateRequest, o outcome) (reconcile.Result, error) {
	if !o.on(cr) {
		err := r.store(ctx, cr, o)
		r.report(ctx, cr, o, err)
		switch {
		case errors.Is(err, errSuperseded):
			return reconcile.Result{}, nil
		case apierrors.IsConflict(err):
			return reconcile.Result{RequeueAfter: conflictPause}, nil
		case err != nil:
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{RequeueAfter: o.again}, o.retry
}

// errSuperseded says that a request has no use for an outcome any more: it has
// been deleted or answered otherwise.
var errSuperseded = errors.New("the request does not wait any more")

// maxConflicts bounds the attempts to store one outcome. Each conflict means
// that somebody else got a change through meanwhile.
const maxConflicts = 10

// store puts the outcome on the request in one write, which holds only if nobody
// has written since: no request gets two certificates, and none gets one that
// was denied meanwhile. On a conflict the same outcome is tried again on the
// request as it is now, if it still waits: a certificate shall not be lost.
func (r requests) store(ctx context.Context, cr *cmv1.CertificateRequest, o outcome) error {
	due := stepOf(cr)
	var err error
	for range maxConflicts {
		if err = r.write(ctx, cr, o); err == nil {
			return nil
		}
		latest, reason := r.recheck(ctx, cr, err)
		switch {
		case reason != nil:
			return reason
		case o.on(latest):
			return nil // stored, but the answer got lost or came late
		case stepOf(latest) != due:
			return errSuperseded
		case !apierrors.IsConflict(err):
			return fmt.Errorf("writing the status: %w", err)
		}
		cr = latest
	}
	return err
}

func (r requests) write(ctx context.Context, cr *cmv1.CertificateRequest, o outcome) error {
	fields, err := o.fields(cr, r.clock.Now())
	if err != nil {
		return err
	}
	return r.apply(ctx, cr, cmv1.SchemeGroupVersion.WithKind(cmv1.CertificateRequestKind), fields)
}

// recheck looks, past the cache, at what has become of a request after a write
// has failed for the given cause.
func (r requests) recheck(ctx context.Context, cr *cmv1.CertificateRequest, cause error) (*cmv1.CertificateRequest, error) {
	latest := &cmv1.CertificateRequest{}
	err := r.client.Get(ctx, client.ObjectKeyFromObject(cr), latest)
	switch {
	case apierrors.IsNotFound(err):
		return nil, errSuperseded
	case err != nil:
		return nil, fmt.Errorf("looking at the request again after %v: %w", cause, err)
	case latest.UID != cr.UID:
		return nil, errSuperseded // another request by the same name
	}
	return latest, nil
}

// report tells operators and requesters what has become of a request. Every
// certificate is logged, also if it reached nobody: whoever audits the CA wants
// to know.
func (r requests) report(ctx context.Context, cr *cmv1.CertificateRequest, o outcome, stored error) {
	logger := log.FromContext(ctx).WithValues("uid", cr.UID, "requester", cr.Spec.Username)
	if o.chain != nil {
		leaf := o.chain.Certificates[0]
		logger = logger.WithValues("subject", leaf.Subject.String(), "serial", leaf.SerialNumber.Text(16),
			"sha256", pki.Fingerprint(leaf), "notAfter", leaf.NotAfter)
	}
	switch {
	case o.chain != nil && stored != nil:
		logger.Info("Discarded certificate that was signed but not stored", "why", stored.Error())
	case o.chain != nil:
		logger.Info("Issued certificate")
	case stored == nil:
		logger.Info("Request has no certificate", "state", o.reason, "reason", o.event, "message", o.message)
	}
	if stored == nil && o.event != "" {
		r.event(cr, o.eventType(), o.event, "Sign", o.message)
	}
}

// event tells of what has happened to an object.
func (c *controller) event(about runtime.Object, eventType, reason, action, note string) {
	c.events.Eventf(about, nil, eventType, reason, action, "%s", presentable(note))
}
