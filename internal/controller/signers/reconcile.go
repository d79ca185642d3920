package signers

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/issuing/signer/declared"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/profile"
)

type reconciler struct {
	*controller
	objects cache.Cache // Signers
	secrets cache.Cache
}

// conflictPause is how long to wait after another client has changed the
// object: the cache has the change by then.
const conflictPause = 500 * time.Millisecond

// Reconcile makes the signer of one object match its specification.
func (r *reconciler) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	s := &v1alpha1.Signer{}
	err := r.objects.Get(ctx, key.NamespacedName, s)
	if apierrors.IsNotFound(err) || err == nil && s.DeletionTimestamp != nil {
		r.close(key.Name)
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	now := r.Clock.Now()
	state, err := r.open(ctx, s, now)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return reconcile.Result{RequeueAfter: conflictPause}, nil // another client is changing it
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	r.publishSigner(s, state)
	r.observe(s, state, now)
	err = r.writeStatus(ctx, s, statusOf(s, state, now), r.Signers.Counts(s.UID))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{RequeueAfter: conflictPause}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("writing the status of Signer %s: %w", s.Name, err)
	}
	state.again = pki.Soonest(state.again, r.memory.firstEnd(s))
	return reconcile.Result{RequeueAfter: state.lookAgain(now)}, nil
}

// state is the state of a signer.
type state struct {
	// profile is nil if the spec is wrong or the name belongs to another
	// signer.
	profile *profile.Profile
	// issuer is the issuer that signs, or nil.
	issuer *issuer
	// problem is what is wrong. If issuer is set nevertheless, it is the previous one.
	problem *problem
	// again is when to look again at the latest; zero means when something
	// changes.
	again time.Time
}

// signs reports whether the signer can sign. If it cannot, problem is set.
func (s state) signs(now time.Time) bool {
	return s.profile != nil && s.issuer != nil && s.issuer.usable(now) == nil
}

// problem is why a signer does not sign as it should.
type problem struct{ reason, message string }

func (p *problem) Error() string { return p.message }

func newProblem(reason, format string, args ...any) *problem {
	return &problem{reason: reason, message: fmt.Sprintf(format, args...)}
}

// The reasons of Signers that are not ready, or not as they should be.
const (
	reasonDuplicate   = "DuplicateSignerName"
	reasonTaken       = "SignerNameTaken"
	reasonInvalid     = "InvalidSpec"
	reasonCANotFound  = "CANotFound"
	reasonCAInvalid   = "CAInvalid"
	reasonCAMissing   = "CAMissing"
	reasonDistrusted  = "CADistrusted"
	reasonCAExpired   = "CAExpired"
	reasonCARevoked   = "CARevoked"
	reasonUnavailable = "CAUnavailable"
)

const (
	// lookEvery is the interval at which a signer checks changes that no watch reports: the
	// built-in CA, and what has failed.
	lookEvery = 30 * time.Second
	// retryPause is the shortest wait before a look.
	retryPause = time.Second
)

// lookAgain returns the time until the next look; 0 means never.
func (s state) lookAgain(now time.Time) time.Duration {
	if s.again.IsZero() {
		return 0
	}
	return max(s.again.Sub(now), retryPause)
}

// open opens a signer, or returns a state that explains why that is not possible. Its
// errors are API errors and temporary.
func (r *reconciler) open(ctx context.Context, s *v1alpha1.Signer, now time.Time) (state, error) {
	if conflicting, err := r.conflicting(ctx, s); err != nil || conflicting != "" {
		return state{problem: newProblem(reasonDuplicate,
			"the Signer %s is older and has the same spec.signerName: delete one of the two", conflicting)}, err
	}
	if r.Taken != nil {
		if who := r.Taken(s.Spec.SignerName); who != "" {
			return state{problem: newProblem(reasonTaken, "%s signs for %s already: remove one of the two", who, s.Spec.SignerName)}, nil
		}
	}
	compiled, problem := r.memory.compile(s)
	if problem != nil {
		return state{problem: problem}, nil
	}
	opened, err := r.openCA(ctx, s, now)
	opened.profile = compiled
	return opened, err
}

// conflicting returns the name of the Signer that signs for the signer name of
// s instead: the oldest one.
func (r *reconciler) conflicting(ctx context.Context, s *v1alpha1.Signer) (string, error) {
	rivals, err := r.all(ctx, client.MatchingFields{bySignerName: s.Spec.SignerName})
	if err != nil {
		return "", err
	}
	first := s
	for i := range rivals {
		other := &rivals[i]
		if other.DeletionTimestamp == nil && profile.Older(other, first) {
			first = other
		}
	}
	if first.Name == s.Name {
		return "", nil
	}
	return first.Name, nil
}

func compile(s *v1alpha1.Signer) (*profile.Profile, *problem) {
	compiled, errs := profile.Compile(s.Spec, field.NewPath("spec"))
	if len(errs) > 0 {
		return nil, newProblem(reasonInvalid, "%v", errs.ToAggregate())
	}
	return compiled, nil
}

// openCA opens the CA of a signer, or keeps the previous one while the new one
// cannot be used.
func (r *reconciler) openCA(ctx context.Context, s *v1alpha1.Signer, now time.Time) (state, error) {
	opened, again, err := r.issuer(ctx, s, now)
	var p *problem
	switch {
	case errors.As(err, &p):
		before := r.memory.issuer(s)
		if p.reason == reasonCAInvalid && before != nil && before.declaration == declarationOf(s) && before.usable(now) == nil {
			return state{issuer: before, problem: p, again: now.Add(lookEvery)}, nil
		}
		r.memory.setIssuer(s, nil)
		return state{problem: p, again: now.Add(lookEvery)}, nil
	case err != nil:
		return state{}, err
	}
	r.memory.setIssuer(s, opened)
	if p := opened.distrusted(s); p != nil {
		r.memory.setIssuer(s, nil)
		return state{problem: p, again: now.Add(lookEvery)}, nil
	}
	if p := opened.usable(now); p != nil {
		return state{issuer: opened, problem: p, again: now.Add(lookEvery)}, nil
	}
	return state{issuer: opened, again: pki.Soonest(again, opened.end())}, nil
}

// publishSigner makes the signer available to the controllers that sign.
func (r *reconciler) publishSigner(s *v1alpha1.Signer, st state) {
	if st.problem != nil && (st.problem.reason == reasonDuplicate || st.problem.reason == reasonTaken) {
		r.Signers.Remove(s.Name)
		r.memory.setIssuer(s, nil)
		r.memory.entry(s).shown = ""
		return
	}
	signer := &declared.Signer{
		Object: s.Name, UID: s.UID, Name: s.Spec.SignerName, Requests: s.Spec.Requests, Chain: s.Spec.Chain,
		Distrusted: s.Spec.DistrustedCAs, Profile: st.profile, OnCreate: ptr.Deref(s.Spec.IssueOnCreate, true) && s.Spec.CA.Key == nil, Publish: s.Spec.PublishTrustBundle == nil || *s.Spec.PublishTrustBundle,
		Counts: r.Signers.Counts(s.UID), Honoured: r.Honoured, Issuing: issuing(r.Issuing, s.Spec.Revocation),
	}
	if st.profile != nil {
		signer.Overlap = overlap(s, st.profile, r.Clock.Now())
	}
	signer.Roots = r.memory.roots(s, st.issuer, r.Clock.Now(), signer.Overlap)
	if st.issuer != nil {
		signer.Former = st.issuer.former
	}
	if st.signs(r.Clock.Now()) {
		signer.CA, signer.Endpoint = st.issuer.ca, st.issuer.endpoint
	} else {
		signer.Unready = st.problem
	}
	if r.memory.isChanged(s, signer, st) {
		r.Signers.Put(signer)
	}
}

// issuing returns how a signer issues certificates.
func issuing(by pki.Issuing, of *v1alpha1.SignerRevocation) pki.Issuing {
	if of == nil {
		return by
	}
	if of.DistributionPoints == v1alpha1.DistributionPointsNone {
		by.Status.ListURL = nil
	}
	by.Status.NoRevAvail = ptr.Deref(of.NoRevAvail, by.Status.NoRevAvail)
	return by
}

// overlapMargin is for other processes that do not learn of a new CA at once.
const overlapMargin = 5 * time.Minute

// overlap returns how long replaced roots are published: until the last
// certificate under them has expired. This includes certificates from before
// the maximum lifetime was shortened.
func overlap(s *v1alpha1.Signer, p *profile.Profile, now time.Time) time.Duration {
	longest := longestUnder(s.Status.CA, p) + overlapMargin
	for _, former := range s.Status.FormerCAs {
		if former.TrustedUntil != nil {
			longest = max(longest, former.TrustedUntil.Sub(now))
		}
	}
	return longest.Round(time.Second)
}

// longestUnder returns the longest lifetime of certificates of a CA, which can be nil:
// the profile may have permitted longer ones when they were issued.
func longestUnder(ca *v1alpha1.CAStatus, p *profile.Profile) time.Duration {
	if ca == nil || ca.LongestLifetime == nil {
		return p.Longest()
	}
	return max(p.Longest(), ca.LongestLifetime.Duration)
}

// close closes a signer.
func (c *controller) close(object string) {
	for _, signer := range c.Signers.All() {
		if signer.Object == object {
			c.metrics.forget(signer.Name)
		}
	}
	c.Signers.Remove(object)
	c.memory.forget(object)
}

// event records what has happened to a signer.
func (r *reconciler) event(s *v1alpha1.Signer, kind, reason, action, format string, args ...any) {
	if r.Events != nil {
		r.Events.Eventf(s, nil, kind, reason, action, format, args...)
	}
}

func (r *reconciler) warn(s *v1alpha1.Signer, reason, action, format string, args ...any) {
	r.event(s, corev1.EventTypeWarning, reason, action, format, args...)
}
