package issuer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/controller/sign"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/signer"
)

// Annotations of CertificateSigningRequests to issuers.
const (
	// annotationDuration is a duration that counts more than expirationSeconds.
	annotationDuration = "experimental.cert-manager.io/request-duration"
	// annotationIsCA asks for a CA if it is "true".
	annotationIsCA = "experimental.cert-manager.io/request-is-ca"
)

const (
	// minDuration is the shortest life that CertificateSigningRequests can ask
	// for.
	minDuration = 10 * time.Minute
	// lookAgain is when to look again for an issuer that is not ready.
	lookAgain = 5 * time.Second
)

// signingRequests answers CertificateSigningRequests.
type signingRequests struct{ *controller }

// addSigningRequests adds what answers CertificateSigningRequests: the same
// controller that works for the signers of Kubernetes.
func (c *controller) addSigningRequests() error {
	return sign.Add(c.mgr, sign.Config{
		SignerName: c.Name, Several: true,
		Ours:     func(signerName string) bool { _, ok := c.kinds.named(signerName); return ok },
		Delegate: signingRequests{c}.sign,
		Client:   c.client, Clock: c.clock, Events: c.events,
		Settings: sign.Settings{Concurrency: c.Concurrency},
	})
}

// sign implements signer.Sign.
func (s signingRequests) sign(ctx context.Context, asked signer.Request, now time.Time) (*signer.Issued, error) {
	w, ours := s.kinds.named(asked.SignerName)
	if !ours {
		return nil, signer.Unavailable(fmt.Errorf("%s is none of our issuers", asked.SignerName))
	}
	uid := types.UID(asked.UID)
	if waiting := s.attempts.of(uid, now); waiting != nil {
		return nil, waiting
	}
	o, err := s.answer(ctx, asked, w)
	if err != nil {
		return nil, signer.Unavailable(err)
	}
	if o.chain != nil || o.failed() {
		s.attempts.forget(uid)
	}
	switch {
	case o.chain != nil:
		return &signer.Issued{Certificate: o.chain.Certificates[0], PEM: o.certificate()}, nil
	case o.failed():
		return nil, signer.Permanent(o.event, errors.New(o.message))
	default:
		return nil, s.attempts.put(uid, o, s.clock.Now())
	}
}

// answer asks the issuer. Its errors are those of the API and go away.
func (s signingRequests) answer(ctx context.Context, asked signer.Request, w who) (outcome, error) {
	// Who may not refer to an issuer need not wait for it.
	if allowed, err := s.mayRefer(ctx, asked.Requester, w); err != nil {
		return outcome{}, err
	} else if !allowed {
		return fails(reasonDeniedReference,
			"user %q may not refer to the %s %q in namespace %q: grant the verb reference on %s.%s there",
			asked.Requester.Username, w.kind.Kind, w.Name, w.Namespace, w.kind.plural, w.kind.Group), nil
	}
	request, bad := s.requestOf(asked)
	if bad != nil {
		return *bad, nil
	}
	issuer, o, err := s.find(ctx, w)
	if issuer == nil {
		return o, err
	}
	request.Issuer = issuer
	csr := &certificatesv1.CertificateSigningRequest{}
	if err := s.cache.Get(ctx, client.ObjectKey{Name: asked.Name}, csr); err != nil {
		return outcome{}, fmt.Errorf("reading the request again: %w", err)
	}
	request.Object = csr
	var approved *metav1.Time
	if condition := certificates.Condition(csr, certificatesv1.CertificateApproved); condition != nil {
		approved = &condition.LastTransitionTime
	}
	return s.ask(ctx, w, request, firstSignable(&csr.CreationTimestamp, approved, issuer)), nil
}

// requestOf returns what a CertificateSigningRequest asks for, or why that
// cannot be had.
func (s signingRequests) requestOf(asked signer.Request) (*Request, *outcome) {
	refuse := func(reason, format string, args ...any) (*Request, *outcome) {
		o := fails(reason, format, args...)
		return nil, &o
	}
	usages, err := pki.ParseUsages(asked.Usages)
	if err != nil {
		return refuse(reasonInvalidRequest, "spec.usages: %v", err)
	}
	request := &Request{
		PEM: asked.PEM, IsCA: asked.Annotations[annotationIsCA] == "true", KeyUsage: usages.Key, ExtKeyUsage: usages.Extended,
		Requester: authenticationv1.UserInfo{Username: asked.Requester.Username, UID: asked.Requester.UID, Groups: asked.Requester.Groups},
	}
	for key, values := range asked.Requester.Extra {
		setExtra(&request.Requester, key, values)
	}
	duration := asked.Duration
	if text, ok := asked.Annotations[annotationDuration]; ok {
		parsed, err := time.ParseDuration(text)
		if err != nil {
			return refuse(reasonParseDuration, "annotation %s: %v", annotationDuration, err)
		}
		duration = &parsed
	}
	if duration != nil && *duration < minDuration {
		return refuse(reasonInvalidDuration, "the duration %v is shorter than %v", *duration, minDuration)
	}
	if err := errors.Join(s.setDuration(request, duration), request.parse()); err != nil {
		return refuse(reasonInvalidRequest, "%v", err)
	}
	return request, nil
}

// mayRefer asks whether who made a request may use an issuer of a namespace:
// CertificateSigningRequests have none, and without the right everybody could
// use the issuers of all.
func (s signingRequests) mayRefer(ctx context.Context, by signer.Requester, w who) (bool, error) {
	if !w.kind.namespaced || s.AnybodyMayRefer {
		return true, nil
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: by.Username, UID: by.UID, Groups: by.Groups, Extra: map[string]authorizationv1.ExtraValue{},
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: w.kind.Group, Version: w.kind.Version, Resource: w.kind.plural, Verb: "reference", Namespace: w.Namespace, Name: w.Name,
		},
	}}
	for key, values := range by.Extra {
		review.Spec.Extra[key] = values
	}
	if err := s.client.Create(ctx, review); err != nil {
		return false, fmt.Errorf("asking whether %s may refer to %s: %w", by.Username, w, err)
	}
	return review.Status.Allowed, nil
}

// attempts remembers until when requests wait for their next attempt: what is
// written to them meanwhile, by the controller itself above all, is no reason to
// ask the CA again. It is safe for concurrent use.
type attempts struct {
	mu sync.Mutex
	by map[types.UID]attempt // mu guards it
}

type attempt struct {
	pending signer.PendingError
	until   time.Time
	count   int
}

func newAttempts() *attempts { return &attempts{by: map[types.UID]attempt{}} }

// of returns what a request waits for; nil if it need not wait any more.
func (a *attempts) of(request types.UID, now time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	last, ok := a.by[request]
	if !ok || !now.Before(last.until) {
		return nil
	}
	wait := last.pending
	wait.RetryAfter = last.until.Sub(now)
	return &wait
}

// put notes that an attempt has brought nothing; it returns what to wait for.
func (a *attempts) put(request types.UID, o outcome, now time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.by, func(_ types.UID, old attempt) bool { return now.Sub(old.until) > lastPause })
	next := attempt{count: a.by[request].count + 1}
	wait := lookAgain
	switch {
	case o.again > 0:
		wait = o.again
	case o.retry != nil:
		wait = pauseAfter(next.count)
	}
	next.until = now.Add(wait)
	next.pending = signer.PendingError{Reason: o.event, Message: o.message, Err: errors.New(o.message), RetryAfter: wait}
	a.by[request] = next
	return &next.pending
}

func (a *attempts) forget(request types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.by, request)
}
