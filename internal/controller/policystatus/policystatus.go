// Package policystatus maintains the status of certificate policies, of their exceptions
// and of approver-policy's policies: whether they are in force, and the number of their
// decisions.
package policystatus

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/protection"
	"github.com/certplane/certplane/internal/process/eventtext"
	"github.com/certplane/certplane/internal/process/worker"
)

// Config is the configuration of the controllers.
type Config struct {
	// Client is the controller's own identity. It needs get and delete on
	// certificatepolicyexceptions, get on certificatepolicies, and update on the
	// status of both. It must read past caches.
	Client client.Client
	// Policies are the policies in force.
	Policies *policies.Policies
	// Clock is the clock; nil means the real one.
	Clock clock.PassiveClock
	// Events, if not nil, records Events about invalid policies.
	Events events.EventRecorder
}

const (
	// every is the interval at which counts are written.
	every = 30 * time.Second
	// keepEnded is how long an exception is kept after its expiry.
	keepEnded = 30 * 24 * time.Hour
)

// Reasons of the condition Ready.
const (
	reasonCompiled        = "Compiled"
	reasonInvalid         = "Invalid"
	reasonReplacesMissing = "ReplacesMissing"
	reasonInForce         = "InForce"
	reasonEnded           = "Ended"

	conditionReady = "Ready"
	eventInvalid   = "PolicyInvalid"
)

// Add adds the controller to mgr. It follows changes of Policies.
func Add(mgr ctrl.Manager, cfg Config) error {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	return errors.Join(
		cfg.add(mgr, "policies", policyStatus{cfg}, cfg.bases(policyBases)),
		cfg.add(mgr, "policyexceptions", exceptionStatus{cfg}, cfg.bases(exceptionBases)),
	)
}

// basis is what the status of a policy or exception follows from: the compiled object, the
// policy that it replaces, and all policies whose changes need people.
type basis struct {
	compiled  any
	replaced  *certpolicy.Policy
	protected string
}

func policyBases(set *certpolicy.Set) map[string]any {
	bases, protected := map[string]any{}, fmt.Sprint(policies.ProtectedIn(set))
	for _, p := range set.Policies() {
		bases[p.Name()] = basis{p, set.Policy(p.Spec().Replaces), protected}
	}
	return bases
}

func exceptionBases(set *certpolicy.Set) map[string]any {
	bases, protected := map[string]any{}, fmt.Sprint(policies.ProtectedIn(set))
	for _, x := range set.Exceptions() {
		bases[x.Name()] = basis{x, nil, protected}
	}
	return bases
}

func (c Config) bases(of func(*certpolicy.Set) map[string]any) func() map[string]any {
	return func() map[string]any {
		set, err := c.Policies.Set()
		if err != nil {
			return nil
		}
		return of(set)
	}
}

// add adds a controller. bases returns what the status of each object follows from, as
// comparable values: after a change of one policy, the others need not be read.
func (c Config) add(mgr ctrl.Manager, name string, reconciler reconcile.Reconciler, bases func() map[string]any) error {
	changes := source.Func(func(ctx context.Context, q worker.Queue) error {
		var before map[string]any
		enqueue := func() {
			now := bases()
			for _, name := range changed(before, now) {
				q.Add(reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
			}
			before = now
		}
		enqueue()
		worker.OnChange(ctx, c.Policies.Subscribe, enqueue)
		return nil
	})
	err := ctrl.NewControllerManagedBy(mgr).Named(name).WatchesRawSource(changes).Complete(reconciler)
	if err != nil {
		return fmt.Errorf("building the controller of %s: %w", name, err)
	}
	return nil
}

// changed returns the names of the objects with another basis than before.
func changed(before, now map[string]any) (names []string) {
	for name, basis := range now {
		if before[name] != basis {
			names = append(names, name)
		}
	}
	return names
}

type policyStatus struct{ Config }

// Reconcile writes the status of a policy.
func (s policyStatus) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	set, err := s.Policies.Set()
	if err != nil {
		return reconcile.Result{RequeueAfter: time.Second}, nil
	}
	compiled := set.Policy(key.Name)
	p := &v1alpha1.CertificatePolicy{}
	if err := s.Client.Get(ctx, key.NamespacedName, p); compiled == nil || err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if compiled.Generation() != p.Generation {
		return reconcile.Result{RequeueAfter: time.Second}, nil // a newer one comes
	}
	before := p.DeepCopy()
	ready := metav1.Condition{Type: conditionReady, Status: metav1.ConditionTrue, Reason: reasonCompiled, Message: "The policy is evaluated", ObservedGeneration: p.Generation}
	switch err := compiled.Err(); {
	case err != nil:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, reasonInvalid, eventtext.Fit(err.Error())
	case p.Spec.Replaces != "" && set.Policy(p.Spec.Replaces) == nil:
		ready.Status, ready.Reason = metav1.ConditionFalse, reasonReplacesMissing
		ready.Message = fmt.Sprintf("The policy %s, which this policy replaces, does not exist", p.Spec.Replaces)
	}
	meta.SetStatusCondition(&p.Status.Conditions, ready)
	protected(p)
	s.counted(ctx, p)
	if _, err := s.proposed(ctx, protection.Policies, p, set, &p.Status.Conditions); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	// Counts from before a restart stay until new ones exist. Counts of another generation
	// do not apply to this one.
	decisions, shadow := s.Policies.Recorder().Counts(p.Name, p.Generation)
	if decisions != nil || shadow != nil || p.Status.ObservedGeneration != p.Generation {
		p.Status.Decisions, p.Status.Shadow = decisions, shadow
	}
	p.Status.ObservedGeneration, p.Status.Digest = p.Generation, compiled.Digest()
	if err := s.write(ctx, before, p, before.Status, p.Status); err != nil {
		return s.afterWrite(err)
	}
	if was := meta.FindStatusCondition(before.Status.Conditions, conditionReady); ready.Reason == reasonInvalid && (was == nil || was.Message != ready.Message) && s.Events != nil {
		s.Events.Eventf(p, nil, corev1.EventTypeWarning, eventInvalid, "Compile", "%s", eventtext.Fit(ready.Message))
	}
	return reconcile.Result{RequeueAfter: every}, nil
}

// write stores a status that has changed.
func (c Config) write(ctx context.Context, before, object client.Object, old, status any) error {
	if equality.Semantic.DeepEqual(old, status) {
		return nil
	}
	return c.Client.Status().Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

func (c Config) afterWrite(err error) (reconcile.Result, error) {
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: time.Second}, nil
	}
	return reconcile.Result{}, client.IgnoreNotFound(err)
}

type exceptionStatus struct{ Config }

// Reconcile writes the status of an exception, and deletes the exception some time after
// its expiry.
func (s exceptionStatus) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	set, err := s.Policies.Set()
	if err != nil {
		return reconcile.Result{RequeueAfter: time.Second}, nil
	}
	compiled := set.Exception(key.Name)
	x := &v1alpha1.CertificatePolicyException{}
	if err := s.Client.Get(ctx, key.NamespacedName, x); compiled == nil || err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	now := s.Clock.Now()
	if x.Spec.NotAfter.Add(keepEnded).Before(now) {
		return reconcile.Result{}, client.IgnoreNotFound(s.Client.Delete(ctx, x, client.Preconditions{UID: &x.UID, ResourceVersion: &x.ResourceVersion}))
	}
	before := x.DeepCopy()
	ready := metav1.Condition{Type: conditionReady, Status: metav1.ConditionTrue, Reason: reasonInForce, Message: "The exception is in force", ObservedGeneration: x.Generation}
	switch err := compiled.Err(); {
	case err != nil:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, reasonInvalid, eventtext.Fit(err.Error())
	case !now.Before(x.Spec.NotAfter.Time):
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, reasonEnded, "The exception has ended"
	}
	text, err := s.proposed(ctx, protection.Exceptions, x, set, &x.Status.Conditions)
	if err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if ready.Reason == reasonEnded && text != "" {
		ready.Reason, ready.Message = v1alpha1.PolicyProposed, "The exception is not in force: it is "+text
	}
	meta.SetStatusCondition(&x.Status.Conditions, ready)
	x.Status.Remaining = compiled.Left(now)
	if err := s.write(ctx, before, x, before.Status, x.Status); err != nil {
		return s.afterWrite(err)
	}
	return reconcile.Result{RequeueAfter: time.Minute}, nil
}
